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


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of which each field may be absent, right or anything at all."""
    return st.fixed_dictionaries({}, optional={key: value | ANYTHING for key, value in fields.items()})


FUNCTION = objects(name=TEXT, arguments=TEXT)
CALL = objects(id=TEXT, function=FUNCTION, name=TEXT, arguments=TEXT)
ROLES = st.sampled_from(["system", "user", "assistant", "tool", "function", "developer", "judge"])
MESSAGE = objects(
    role=ROLES, content=TEXT, tool_calls=st.lists(CALL, max_size=2), tool_call_id=TEXT, function_call=FUNCTION
)
TOOLS = st.lists(objects(type=TEXT, name=TEXT, parameters=ANYTHING, function=FUNCTION), max_size=2)
CHAT = objects(messages=st.lists(MESSAGE, max_size=4), tools=TOOLS, id=TEXT, task_id=TEXT)
KINDS = st.sampled_from(["message", "reasoning", "function_call", "function_call_output", "function_call_batch"])
ITEM = objects(
    type=KINDS, role=ROLES, content=TEXT, name=TEXT, arguments=TEXT, call_id=TEXT, output=TEXT, summary=ANYTHING
)
PARAMS = objects(input=st.lists(ITEM, max_size=4), tools=TOOLS)
PIVOT = objects(
    responses_create_params=PARAMS, expected_action=ITEM, expected_answer=TEXT, metadata=ANYTHING, uuid=TEXT
)
LINES = st.lists(
    (CHAT | PIVOT | ANYTHING).map(lambda row: json.dumps(row).encode()) | st.binary(max_size=20), max_size=5
)


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
