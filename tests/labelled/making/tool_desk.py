"""Natural pairs of the embedded help desk: what a policy sampled at an expert's call, labelled by executing both.

`desk_samples.jsonl.gz` holds distinct samples of two small policies (warmed up on other tasks of the domain) at call
states, from profiles of the pipeline. The environment is set to the state by playing the expert's turns again; then
each call is run on a copy of it. Both do the same where they leave the same database and the same orders looked up, and give
back the same text. An answer that is an error establishes nothing: where the expert's call fails there, another one is
the same only if the environment reads the same arguments out of it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME, ArgumentError, parse_arguments
from pivotrl_core.environments.helpdesk.domain import HelpdeskDomain
from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.protocol import Task
from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.types import Action, Json, Message, Role, Split, ToolCall
from tests.labelled.making.tool_lines import Labels, labelled_line, same_json

SAMPLES = Path(__file__).parents[1] / "tool" / "desk_samples.jsonl.gz"
TASKS, SEED = 288, 0


@dataclass(frozen=True)
class DeskState:
    """A call state: its messages, the environment in it, the expert's call, and what was sampled there how often."""

    messages: tuple[Message, ...]
    snapshot: bytes
    expert: ToolCall
    samples: Mapping[str, int]


def desk_states() -> Iterator[DeskState]:
    """All states of the file, in its order."""
    domain = HelpdeskDomain()
    tasks = {task.id: task for task in domain.tasks(Split.TRAIN, TASKS, SEED)}
    for line in gzip.decompress(SAMPLES.read_bytes()).decode().splitlines():
        record = json.loads(line)
        task = tasks[record["task"]]
        messages = domain.expert_trajectory(task, record["expert_seed"]).messages
        places = [place for place, message in enumerate(messages) if message.role is Role.ASSISTANT]
        place = places[record["turn"]]
        samples = {**record["samples"], **dict.fromkeys(record["more"], 0)}
        yield DeskState(messages[:place], _play(task, messages[:place]), messages[place].tool_calls[0], samples)


def _play(task: Task, messages: Sequence[Message]) -> bytes:
    environment = HelpdeskEnvironment()
    seen = list(environment.reset(task).messages)
    for message in messages:
        if message.role is Role.ASSISTANT:
            answer = environment.step(Action(message.content, message.tool_calls)).messages
            seen += [message, *answer]
    assert [(one.role, one.content) for one in seen] == [(one.role, one.content) for one in messages]
    return environment.snapshot()


def effect(snapshot: bytes, call: ToolCall) -> tuple[Json, bool]:
    """What a call leaves behind and gives back at a state, and whether it was refused."""
    environment = HelpdeskEnvironment()
    environment.restore(snapshot)
    text = environment.step(Action(tool_calls=(call,))).messages[0].content
    after: dict[str, Any] = json.loads(environment.snapshot())
    return [after["database"], after["seen"], text], "error" in json.loads(text)


def is_same(state: DeskState, call: ToolCall) -> tuple[bool, str] | None:
    """Whether a call does what the expert's does at a state, and how that was found; None: it cannot be told."""
    (wanted, expert_fails), (found, fails) = effect(state.snapshot, state.expert), effect(state.snapshot, call)
    if not expert_fails:
        return wanted == found, "executed"
    if not fails:
        return False, "executed"
    try:
        tool = TOOLS_BY_NAME[state.expert.name]
        return parse_arguments(tool, state.expert.arguments) == parse_arguments(tool, call.arguments), "by_construction"
    except ArgumentError:
        return None


def desk_lines() -> Iterator[dict[str, Json]]:
    """Pairs of the expert's call and a sampled one of the same tool that is written otherwise."""
    for state in desk_states():
        for text in state.samples:
            call = sampled_call(text)
            if call is None or call.name != state.expert.name or call.arguments == state.expert.arguments:
                continue
            found = is_same(state, call)
            if found is not None:
                same, established = found
                kind = difference(state.expert, call)
                labels = Labels("valid" if same else "wrong", kind, "model", established, "helpdesk")
                yield labelled_line(state.messages, tuple(TOOLS_BY_NAME.values()), [state.expert], [call], labels)


def sampled_call(text: str) -> ToolCall | None:
    """The one call of a sample, if it is one that can be read."""
    action = parse_action(text, "compact", tuple(TOOLS_BY_NAME.values()))
    return None if action.error or len(action.tool_calls) != 1 else action.tool_calls[0]


def difference(expert: ToolCall, call: ToolCall) -> str:
    """What differs, in a few words: for the kind of a pair."""
    if same_json(expert.arguments, call.arguments):
        return "order_of_keys"
    first, second = decode_arguments(expert.arguments).value, decode_arguments(call.arguments).value
    surplus, absent = sorted(second.keys() - first.keys()), sorted(first.keys() - second.keys())
    properties = TOOLS_BY_NAME[call.name].parameters["properties"]
    if surplus and absent:
        return "another_key" if set(surplus) <= properties.keys() else "unknown_argument"
    if surplus:
        return f"surplus_{surplus[0]}" if surplus[0] in properties else "unknown_argument"
    if absent:
        return f"without_{absent[0]}"
    changed = [name for name in sorted(first) if first[name] != second[name]]
    spelt = all(str(first[name]).lower() == str(second[name]).lower() for name in changed)
    return f"letters_of_{changed[0]}" if spelt else f"other_{changed[0]}"


def sampled_counts() -> dict[str, int]:
    """Of all single samples that do what the expert's call does: how many there are, and how many are its text."""
    valid = identical = 0
    for state in desk_states():
        for text, count in state.samples.items():
            call = sampled_call(text)
            if count and call is not None and (found := is_same(state, call)) is not None and found[0]:
                valid += count
                identical += count * (call == ToolCall(state.expert.name, state.expert.arguments))
    return {"valid": valid, "identical": identical}
