"""What a policy trains on is, id for id, what it reads when it plays: files, readers and pools change nothing of it.

Once they did: files sorted the keys of tool schemas, so that the listing in the prompt named arguments in one order in
training and in another in episodes, and a small model filled in whatever came first.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.environments.recording import iter_trajectories, to_openai_row
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.files import write_jsonl
from pivotrl_core.pivots.pool import build_pool, read_pool, write_pool
from pivotrl_core.pivots.profile_record import (
    ProfileRow,
    read_candidates,
    read_profile,
    write_candidates,
    write_profile,
)
from pivotrl_core.pivots.selection import AllTurns
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Action, Candidate, Json, Split, Tool, Verdict
from tests.candidate_sets import extract_candidates
from tests.tiny_models import CHATML, CHATML_TOOLS, tiny_tokenizer

COUNT = 28
RENDERERS = {"compact": (CHATML, "compact"), "hermes": (CHATML_TOOLS, "hermes")}


def from_pool(candidates: list[Candidate], folder: Path) -> list[Candidate]:
    """The candidates as a training stage reads them: through the files of all stages before it."""
    write_candidates(folder / "candidates.parquet", candidates)
    read = read_candidates(folder / "candidates.parquet")
    write_profile(folder / "profile.parquet", [ProfileRow(one, (Verdict(1.0, "x", {}),), 1.0) for one in read])
    pool = build_pool(read_profile(folder / "profile.parquet"), AllTurns(), candidates=read)
    write_pool(folder / "pool", pool)
    return [row.candidate for row in read_pool(folder / "pool" / "pool.parquet")]


@pytest.mark.parametrize("name", list(RENDERERS))
def test_every_state_of_a_pool_is_what_the_policy_reads_at_that_turn(name: str, tmp_path: Path) -> None:
    template, tool_format = RENDERERS[name]
    renderer = ChatRenderer(tiny_tokenizer(template), tool_format)
    domain = get_domain("helpdesk")
    write_jsonl(tmp_path / "train.jsonl", map(to_openai_row, iter_trajectories(domain, Split.TRAIN, COUNT, 0)))
    loaded = load_trajectories([tmp_path / "train.jsonl"], Limits(), 0.0)
    found = extract_candidates(loaded.trajectories, 0.0, 0.0)
    pool = {(one.trajectory_id, one.turn_index): one for one in from_pool(found.candidates, tmp_path)}
    compared = 0
    for task, trajectory in zip(domain.tasks(Split.TRAIN, COUNT, 0), loaded.trajectories, strict=True):
        environment = domain.environment()
        messages = environment.reset(task).messages
        for turn, expert in enumerate(one for one in trajectory.messages if str(one.role) == "assistant"):
            candidate = pool.get((trajectory.id, turn))
            if candidate is not None:  # a turn that an earlier trajectory has too stands in the pool once
                played = renderer.state_ids(messages, environment.tools)
                assert played == renderer.state_ids(candidate.state, candidate.tools)
                compared += 1
            answer = environment.step(Action(content=expert.content, tool_calls=expert.tool_calls)).messages
            messages = (*messages, expert, *answer)
    assert compared > 2 * COUNT


def shuffled(value: Json, rng: random.Random) -> Json:
    """The same value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(one, rng) for one in value] if isinstance(value, list) else value


def test_another_order_of_a_schemas_keys_is_another_candidate_and_is_kept(tmp_path: Path) -> None:
    domain = get_domain("helpdesk")
    first = extract_candidates(list(iter_trajectories(domain, Split.TRAIN, 1, 0)), 0.0, 0.0).candidates[0]
    rng = random.Random(0)
    tools = tuple(Tool(tool.name, tool.description, shuffled(dict(tool.parameters), rng)) for tool in first.tools)
    second = replace(first, tools=tools)
    assert second.tools == first.tools  # equal as values
    assert second.id != first.id  # but another prompt
    back = from_pool([first, second], tmp_path)
    listings = [[list(tool.parameters["properties"]) for tool in one.tools] for one in back]
    assert listings == [[list(tool.parameters["properties"]) for tool in one.tools] for one in (first, second)]
    assert listings[0] != listings[1]
