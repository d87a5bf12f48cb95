"""Lines of the tool set: a row that `pivotrl verify` reads, with its labels beside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pivotrl_core.bench.pairs import state_id
from pivotrl_core.trajectories.nemo_gym_writer import candidate_to_nemo_row
from pivotrl_core.types import Candidate, Json, Message, Role, Tool, ToolCall, canonical_json
from tests.labelled.making.pair_rows import pair_id, part_of

Said = str | Sequence[ToolCall]
"""Words, or calls."""
AT_ONE_STATE = 3
"""Pairs of one kind and label at one state."""


@dataclass(frozen=True)
class Labels:
    """What is known of a pair; as in docs/benchmarks.md."""

    label: str
    kind: str
    origin: str
    established: str
    environment: str = ""


def labelled_line(
    state: Sequence[Message], tools: Sequence[Tool], expected: Said, actual: Said, labels: Labels
) -> dict[str, Json]:
    """One line: `expected` and `actual` are calls, or the texts of messages."""
    said = isinstance(expected, str)
    expert = Message(Role.ASSISTANT, expected) if said else Message(Role.ASSISTANT, tool_calls=tuple(expected))
    row = candidate_to_nemo_row(Candidate(tuple(state), tuple(tools), expert, "", 0))
    row = {key: row[key] for key in ("responses_create_params", "expected_action")} | {"response": _response(actual)}
    environment = {"environment": labels.environment} if labels.environment else {}
    known = {"label": labels.label, "origin": labels.origin, "kind": labels.kind, "established": labels.established}
    return {"pair": pair_id(row), **known, "part": part_of(row), **environment, **row}


def _response(action: Said) -> list[dict[str, Json]]:
    if isinstance(action, str):
        content = [{"type": "output_text", "text": action, "annotations": []}]
        return [{"type": "message", "role": "assistant", "content": content}]
    return [_call(call) for call in action]


def _call(call: ToolCall) -> dict[str, Json]:
    return {"type": "function_call", "name": call.name, "arguments": call.arguments}


def spread(lines: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Lines without repetition, at most a few of one kind and label at one state, in their order."""
    counts: Counter[tuple[str, str, str]] = Counter()
    known: set[str] = set()
    kept = []
    for line in lines:
        place = (state_id(line), line["label"], line["kind"])
        if line["pair"] not in known and counts[place] < AT_ONE_STATE:
            counts[place] += 1
            known.add(line["pair"])
            kept.append(line)
    return kept


def as_text(lines: Iterable[dict[str, Json]]) -> str:
    """JSON lines, sorted by state so that a packer finds what repeats."""
    ordered = sorted(lines, key=lambda line: (state_id(line), line["pair"]))
    return "".join(json.dumps(line, ensure_ascii=False, sort_keys=False) + "\n" for line in ordered)


def same_json(first: str, second: str) -> bool:
    """Whether two texts are one JSON value, apart from spaces and the order of keys."""
    return canonical_json(json.loads(first)) == canonical_json(json.loads(second))
