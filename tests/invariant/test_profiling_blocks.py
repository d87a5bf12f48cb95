"""Profiling in blocks: killed and carried on, or grown over several pulls, it equals a profile made at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_policy
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.pivots.curtailment import Curtailment
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.profiling import ProfileCost, Profiler, Rollout, read_rollouts, write_rollouts
from pivotrl_core.pivots.selection import Pivots, keeps
from pivotrl_core.types import Candidate, Trajectory
from tests.candidate_sets import extract_candidates
from tests.tiny_models import COMPUTE, EOS
from tests.toy_training import LetterVerifier, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")

SAMPLES, BLOCK = 3, 2


def pulled(*files: tuple[str, Sequence[Trajectory]]) -> list[Candidate]:
    """Candidates of files, as the candidates stage orders and marks them."""
    trajectories = [replace(one, metadata={"file": name}) for name, rows in files for one in rows]
    return list(extract_candidates(trajectories, 0.0, 0.0).candidates)


def profiler(model: Path, store: Path, **changes: object) -> Profiler:
    policy = load_policy(model, model, COMPUTE)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    plain = Profiler(
        engine, renderer, LetterVerifier(), SamplingConfig(1.0, 4), SAMPLES, 0, "pi-0", store, block_trajectories=BLOCK
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def profile(profiler: Profiler, candidates: list[Candidate], out: Path) -> tuple[ProfileCost, dict[str, bytes]]:
    """The cost, and the bytes of the files that the profile stage writes."""
    groups, cost = profiler.profile(candidates, lambda *_: None)
    rows = [ProfileRow(one, tuple(r.verdict for r in group)) for one, group in zip(candidates, groups, strict=True)]
    write_rollouts(out / "rollouts.parquet", [rollout for group in groups for rollout in group])
    write_profile(out / "profile.parquet", rows)
    return cost, {path.name: path.read_bytes() for path in sorted(out.iterdir())}


FIRST, SECOND = toy_trajectories(5), toy_trajectories(3, first=5)


@pytest.mark.parametrize("last", [0, 1, 2])
def test_a_profile_killed_after_a_block_carries_on_to_equal_bytes(last: int, tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST))
    cost, undisturbed = profile(profiler(tiny_llama, tmp_path / "one"), candidates, tmp_path / "out1")
    assert (cost.computed_blocks, cost.stored_blocks) == (3, 0)

    def stop(index: int, of: int, rollouts: list[Rollout]) -> None:
        if index == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profiler(tiny_llama, tmp_path / "two").profile(candidates, stop)
    again, resumed = profile(profiler(tiny_llama, tmp_path / "two"), candidates, tmp_path / "out2")
    assert (again.computed_blocks, again.stored_blocks) == (2 - last, last + 1)
    assert resumed == undisturbed
    assert again.tokens == cost.tokens  # what a profile cost is what its samples cost, whenever they were drawn
    assert cost.tokens.turns == SAMPLES * len(candidates)


def test_new_trajectories_compute_new_blocks_only_and_equal_a_profile_made_at_once(
    tiny_llama: Path, tmp_path: Path
) -> None:
    yesterday, today = pulled(("a.jsonl", FIRST)), pulled(("a.jsonl", FIRST), ("b.jsonl", SECOND))
    profile(profiler(tiny_llama, tmp_path / "grown"), yesterday, tmp_path / "out0")
    cost, grown = profile(profiler(tiny_llama, tmp_path / "grown"), today, tmp_path / "out1")
    assert (cost.computed_blocks, cost.stored_blocks) == (2, 3)
    at_once, expected = profile(profiler(tiny_llama, tmp_path / "fresh"), today, tmp_path / "out2")
    assert (at_once.computed_blocks, at_once.stored_blocks) == (5, 0)
    assert grown == expected
    assert cost.tokens == at_once.tokens


def test_another_policy_verifier_or_sampling_shares_no_block(tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST[:2]))
    store = tmp_path / "store"
    profile(profiler(tiny_llama, store), candidates, tmp_path / "out")
    others = [
        {"policy_digest": "pi-1"}, {"verifier": LetterVerifier(version="2")}, {"sampling": SamplingConfig(0.9, 4)},
        {"sampling": SamplingConfig(1.0, 5)}, {"samples": 4}, {"seed": 1},
    ]  # fmt: skip
    for change in others:
        _, cost = profiler(tiny_llama, store, **change).profile(candidates, lambda *_: None)
        assert (cost.computed_blocks, cost.stored_blocks) == (1, 0), change
    newer = profiler(tiny_llama, store)
    newer.engine.version += "1"
    prompts = profiler(tiny_llama, store)
    prompts.renderer.tokenizer.chat_template = prompts.renderer.tokenizer.chat_template.replace("user", "human")
    prompts.renderer.tokenizer.chat_template = prompts.renderer.tokenizer.chat_template.replace("<|im_end|>\n", EOS)
    mended = [replace(one, metadata={**one.metadata, "tests": ["make test"]}) for one in candidates]
    for other, asked in ((newer, candidates), (prompts, candidates), (profiler(tiny_llama, store), mended)):
        _, cost = other.profile(asked, lambda *_: None)
        assert (cost.computed_blocks, cost.stored_blocks) == (1, 0)
    for path in store.iterdir():
        os.utime(path, (0, 0))
    _, cost = profiler(tiny_llama, store).profile(candidates, lambda *_: None)
    assert (cost.computed_blocks, cost.stored_blocks) == (0, 1)
    assert sum(path.stat().st_mtime > 0 for path in store.glob("*.json")) == 1  # gc keeps what is read


def curtailed(model: Path, store: Path, *lambdas: float) -> Profiler:
    """A profiler that decides the paper's rule for these lambdas."""
    rules = [Pivots(one) for one in lambdas]
    return profiler(model, store, samples=8, curtailment=Curtailment({repr(one): keeps(one) for one in rules}, 8))


def test_a_curtailed_profile_draws_the_first_of_all_samples_and_selects_alike(tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST))
    full, cost = profiler(tiny_llama, tmp_path / "full", samples=8).profile(candidates, lambda *_: None)
    short, saved = curtailed(tiny_llama, tmp_path / "short", 0.6).profile(candidates, lambda *_: None)
    assert 0 < saved.tokens.turns == sum(map(len, short)) < cost.tokens.turns
    given = sum(len(rollout.ids) for group in short for rollout in group)
    assert given <= saved.tokens.generated <= cost.tokens.generated  # some are written ahead, and counted
    for whole, first in zip(full, short, strict=True):
        assert [(r.sample, r.ids, r.verdict) for r in first] == [
            (r.sample, r.ids, r.verdict) for r in whole[: len(first)]
        ]
    frames = []
    for name, groups in (("full", full), ("short", short)):
        verdicts = [tuple(rollout.verdict for rollout in group) for group in groups]
        rows = [ProfileRow(one, own, planned=8) for one, own in zip(candidates, verdicts, strict=True)]
        write_profile(tmp_path / f"{name}.parquet", rows)
        frames.append(read_profile(tmp_path / f"{name}.parquet"))
    kept = [[decision.kept for decision in Pivots(0.6).decide(frame)] for frame in frames]
    assert kept[0] == kept[1]
    assert any(kept[0])
    assert not all(kept[0])


def test_another_rule_draws_only_what_is_missing(tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST))
    store = tmp_path / "store"
    _, first = curtailed(tiny_llama, store, 0.3).profile(candidates, lambda *_: None)
    assert first.topped_up == 0
    grown_profiler = curtailed(tiny_llama, store, 0.3, 0.6)
    grown, cost = grown_profiler.profile(candidates, lambda *_: None)
    fresh, at_once = curtailed(tiny_llama, tmp_path / "fresh", 0.3, 0.6).profile(candidates, lambda *_: None)
    ids = [[[rollout.ids for rollout in group] for group in groups] for groups in (grown, fresh)]
    assert ids[0] == ids[1]
    assert 0 < cost.topped_up < len(candidates)
    assert grown_profiler.engine.count.turns == at_once.tokens.turns - first.tokens.turns
    assert cost.tokens.turns == at_once.tokens.turns
    again, stored = curtailed(tiny_llama, store, 0.3, 0.6).profile(candidates, lambda *_: None)
    assert (again, stored.computed_blocks, stored.tokens) == (grown, 0, cost.tokens)


def test_a_full_profile_serves_a_curtailed_one_and_takes_nothing_from_it(tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST))
    full, _ = profiler(tiny_llama, tmp_path, samples=8).profile(candidates, lambda *_: None)
    short_profiler = curtailed(tiny_llama, tmp_path, 0.6)
    short, cost = short_profiler.profile(candidates, lambda *_: None)
    assert short_profiler.engine.count.turns == cost.topped_up == 0
    assert short == [whole[: len(first)] for whole, first in zip(full, short, strict=True)]
    other = tmp_path / "other"
    curtailed(tiny_llama, other, 0.6).profile(candidates, lambda *_: None)
    whole = profiler(tiny_llama, other, samples=8)
    assert whole.profile(candidates, lambda *_: None)[0] == full
    assert whole.engine.count.turns == 8 * len(candidates)


def test_an_engine_is_another_where_it_samples_by_another_plan(tiny_llama: Path) -> None:
    model = load_policy(tiny_llama, tiny_llama, COMPUTE).model
    versions = [TransformersEngine(model, [1], rows).version for rows in (192, 192, 64)]
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize("spoilt", [".parquet", ".json"])
def test_a_block_that_a_disk_has_spoilt_is_sampled_again(spoilt: str, tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST[:2]))
    cost, expected = profile(profiler(tiny_llama, tmp_path / "store"), candidates, tmp_path / "out1")
    (block,) = (tmp_path / "store").glob(f"*{spoilt}")
    whole = block.read_bytes()
    for rest in (whole[: len(whole) // 2], b""):
        block.write_bytes(rest)
        again, mended = profile(profiler(tiny_llama, tmp_path / "store"), candidates, tmp_path / "out2")
        assert (again.computed_blocks, again.tokens, mended) == (1, cost.tokens, expected)
        assert block.read_bytes() == whole


def test_rollouts_are_read_as_they_were_written(tiny_llama: Path, tmp_path: Path) -> None:
    candidates = pulled(("a.jsonl", FIRST[:1]))
    groups, _ = profiler(tiny_llama, tmp_path / "store").profile(candidates, lambda *_: None)
    rollouts = [rollout for group in groups for rollout in group]
    write_rollouts(tmp_path / "rollouts.parquet", rollouts)
    assert read_rollouts(tmp_path / "rollouts.parquet") == rollouts
    assert [rollout.candidate_id for rollout in rollouts[::SAMPLES]] == [candidate.id for candidate in candidates]
    assert len({rollout.ids for rollout in rollouts}) > SAMPLES
