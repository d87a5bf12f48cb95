"""Accept rates of verifiers on labelled pairs: what is counted, and how sure one can be of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pivotrl_core.bench.pairs import Part, Share, accept_rates, labelled_sets, read_pairs
from pivotrl_core.errors import DataError
from pivotrl_core.types import Json
from tests.labelled.making.pair_rows import pair_id, part_of

TOOL = {"type": "function", "name": "book", "parameters": {"type": "object", "properties": {
    "day": {"type": "string", "format": "date"}, "seats": {"type": "integer", "default": 1}, "slot": {"type": "string"},
}}}  # fmt: skip


def call(**arguments: Json) -> dict[str, Json]:
    return {"type": "function_call", "name": "book", "arguments": json.dumps(arguments)}


def line(label: str, kind: str, expected: dict[str, Json], actual: dict[str, Json], **more: str) -> dict[str, Json]:
    params = {"input": [{"role": "user", "content": f"Book it ({kind})."}], "tools": [TOOL]}
    row = {"responses_create_params": params, "expected_action": expected, "response": [actual]}
    labels = {"origin": "rewritten", "kind": kind, "established": "by_construction", **more}
    return {**row, "label": label, **labels, "pair": pair_id(row), "part": part_of(row)}


LINES = [
    line("valid", "default", call(day="2026-05-12"), call(day="2026-05-12", seats=1), origin="model"),
    line("valid", "spaces", call(slot="late in the day"), {**call(), "arguments": '{"slot":  "late in the day"}'}),
    line("valid", "spelling", call(slot="a b"), call(slot="b a")),
    line("wrong", "day", call(day="2026-05-12"), call(day="2026-05-13"), origin="model"),
    line("wrong", "true", call(seats=1), call(seats=True)),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in LINES))
    (tmp_path / "sampled.json").write_text('{"valid": 8, "identical": 6}')
    return tmp_path


def test_what_each_verifier_makes_of_five_pairs(folder: Path) -> None:
    """By hand. NeMo Gym: no defaults, words in any order, and true is an integer to it."""
    rates = {(one.origin, str(one.rule)): one for one in accept_rates(folder, "tool", "all", lambda _: None)}
    counts = {key: (one.recognised.count, one.accepted.count) for key, one in rates.items() if key[0] == "all"}
    assert counts == {("all", "exact"): (0, 0), ("all", "nemo-gym"): (2, 1), ("all", "functional"): (2, 0)}
    ours = rates["all", "functional"]
    assert (ours.recognised.total, ours.accepted.total) == (3, 2)
    assert ours.errors == {"valid spelling": (1, 1)}
    assert rates["all", "exact"].punished == Share(2, 8)
    assert rates["model", "functional"].recognised == Share(1, 1)
    told = json.loads(ours.line())
    assert told["valid_recognised"]["share"] == 0.6667
    assert told["errors"] == {"valid spelling": [1, 1]}
    assert "errs on valid spelling: 1 of 1" in ours.text()


def test_a_part_is_graded_alone(folder: Path) -> None:
    totals = [
        next(one.recognised.total + one.accepted.total for one in accept_rates(folder, "tool", part, lambda _: None))
        for part in Part
    ]
    assert sum(totals) == len(LINES)


def test_exact_intervals_are_those_of_the_tables() -> None:
    """Clopper-Pearson: none of n has the upper bound 1 - 0.025 ** (1 / n); 5 of 10 is (0.1871, 0.8129)."""
    assert Share(0, 10).interval == (0.0, pytest.approx(1 - 0.025**0.1))
    assert Share(10, 10).interval == (pytest.approx(0.025**0.1), 1.0)
    assert Share(5, 10).interval == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))
    assert Share(0, 0).json() == {"count": 0, "of": 0}


def test_a_packed_set_reads_the_same(folder: Path, tmp_path: Path) -> None:
    plain = read_pairs(folder)
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "pairs.jsonl.gz").write_bytes(gzip.compress((folder / "pairs.jsonl").read_bytes(), mtime=0))
    assert read_pairs(packed) == plain
    assert "label" not in plain[0].row


def test_what_is_not_there_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder here is named search"):
        labelled_sets(tmp_path, "search")
    with pytest.raises(DataError, match="no labelled pairs here"):
        read_pairs(tmp_path)
    (tmp_path / "pairs.jsonl").write_text('{"label": "valid"}\n[]\n')
    with pytest.raises(DataError, match="line 2: not a labelled pair"):
        read_pairs(tmp_path)
