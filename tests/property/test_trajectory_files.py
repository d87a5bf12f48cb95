"""Whatever a file holds, reading it never crashes and its counts add up."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.pivots.candidates import extract_candidates
from pivotrl_core.pivots.profile_record import read_candidates, write_candidates
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.loading import iterate_trajectories

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


ROWS = CHAT | PIVOT | mutated(CHAT) | mutated(PIVOT) | ANYTHING
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
