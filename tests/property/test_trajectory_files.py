"""Whatever a file holds, reading it never crashes and its counts add up."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.pivots.profile_record import read_candidates, write_candidates
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.fields import InvalidRowError
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.protocol import DocumentReader
from pivotrl_core.trajectories.registry import READERS, as_row, detect_reader
from tests.candidate_sets import extract_candidates
from tests.trajectory_rows import ROWS as FORMATS

TEXT = st.text(st.characters(), max_size=8) | st.sampled_from(["", "c1", "find", "{}", '{"a": 1}', "<think>"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


USER = st.builds(lambda text: {"role": "user", "content": text}, TEXT)
TURN = st.builds(
    lambda text, arguments: {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": arguments}}],
    },
    TEXT,
    st.sampled_from(["", "{}", '{"a": 1}', '{"a": [1.5, null]}']),
)
RESULT = st.builds(lambda text: {"role": "tool", "tool_call_id": "c1", "content": text}, TEXT)
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
CHAT = st.builds(lambda *messages: {"messages": list(messages), "tools": TOOLS}, USER, TURN, RESULT, USER, TURN)
ITEMS = st.permutations([
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": "Here."},
    {"type": "function_call", "name": "find", "arguments": "{}", "call_id": "c1"},
])  # fmt: skip
PIVOT = st.builds(
    lambda user, items, answer: {
        "responses_create_params": {"input": [user, *items], "tools": [TOOLS[0]["function"]]},
        "expected_action": {"type": "message", "content": answer},
    },
    USER,
    ITEMS,
    TEXT,
)


@st.composite
def mutated(draw: st.DrawFn, rows: st.SearchStrategy[Any]) -> Any:
    """A right row in which one part, or none, is removed or replaced by anything."""
    row = json.loads(json.dumps(draw(rows)))
    node = row
    for _ in range(draw(st.integers(0, 6))):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and draw(st.booleans()):
            node = node[key]
        elif draw(st.booleans()):
            node[key] = draw(ANYTHING)
            break
        else:
            del node[key]
            break
    return row


FORMAT_ROWS = st.sampled_from([row for _, row in FORMATS.values()])
ROWS = CHAT | PIVOT | mutated(CHAT) | mutated(PIVOT) | mutated(FORMAT_ROWS) | ANYTHING
LINES = st.lists(ROWS.map(lambda row: json.dumps(row).encode()) | st.binary(max_size=20), max_size=5)


@given(LINES)
@settings(max_examples=300, deadline=None)
def test_every_row_is_kept_or_dropped_and_what_is_kept_can_be_stored(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        file.write_bytes(b"\n".join(lines))
        report = DropReport()
        trajectories = list(iterate_trajectories([file], report))
        assert report.read == len(trajectories) + len(report.drops)
        assert report.kept == len(trajectories)
        assert len({trajectory.id for trajectory in trajectories}) == len(trajectories)
        candidates = extract_candidates(trajectories, 0.2, 0.2).candidates
        write_candidates(Path(folder) / "candidates.parquet", candidates)
        again = read_candidates(Path(folder) / "candidates.parquet")
        assert [candidate.id for candidate in again] == [candidate.id for candidate in candidates]


ODD: list[Any] = [
    None, 0, 1.5, True, "", "x", "{", "<tool_call>", "<think>", [], {}, [[]], [{}], [None], [1], {"a": 1},
    {"content": 5},
]  # fmt: skip


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The place of each part of a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *rest) for rest in paths(value[key]))


def damaged(row: Any) -> Iterator[Any]:
    """The row with each of its parts removed, and replaced by each odd value."""
    for path in paths(row):
        for odd in [..., *ODD]:
            copy = json.loads(json.dumps(row))
            node = copy
            for key in path[:-1]:
                node = node[key]
            if odd is ...:
                del node[path[-1]]
            else:
                node[path[-1]] = odd
            yield copy


@pytest.mark.parametrize("name", FORMATS)
def test_whatever_part_of_a_row_is_damaged_its_reader_raises_nothing_but_its_own_error(name: str) -> None:
    whole = detect_reader(FORMATS[name][1])
    for value in damaged(FORMATS[name][1]):
        row = as_row(value)
        for reader in {detect_reader(value), whole}:
            if reader is None or row is None:
                continue
            try:
                parts = reader.split(row) if isinstance(reader, DocumentReader) else [("", row)]
                for _, part in parts:
                    assert len(reader.read_row(part, "rows.jsonl:1").id) == 16
            except InvalidRowError:
                pass


@given(st.sampled_from(READERS), ANYTHING | mutated(FORMAT_ROWS))
@settings(max_examples=300, deadline=None)
def test_a_reader_that_is_given_another_formats_row_raises_nothing_but_its_own_error(reader: Any, value: Any) -> None:
    row = as_row(value) or {}
    try:
        reader.recognises(row)
        reader.read_row(row, "rows.jsonl:1")
    except InvalidRowError:
        pass
