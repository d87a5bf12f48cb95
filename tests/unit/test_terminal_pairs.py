"""Verdicts on the open part of the labelled pairs of terminal turns stay as right as they were measured to be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pivotrl_core.bench.pairs import Pair, Part, Rule, accepts, read_pairs
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.rows import verify_row

FOLDER = Path(__file__).parents[1] / "labelled" / "terminal"
EVERY = 25
"""One pair of so many is executed here; `pivotrl bench pairs --domain terminal` executes all."""


@cache
def open_pairs() -> tuple[Pair, ...]:
    return tuple(pair for pair in read_pairs(FOLDER) if pair.labels["part"] == Part.OPEN)


def unexecuted(pair: Pair) -> bool:
    """Whether a pair is accepted without its workspace, by the normal form of its commands alone."""
    return bool(verify_row(pair.row, "terminal")["reward"] == 1.0)


def test_normal_forms_accept_no_wrong_command_and_more_valid_ones_than_they_did() -> None:
    wrong = [pair.labels["pair"] for pair in open_pairs() if pair.labels["label"] == "wrong" and unexecuted(pair)]
    assert wrong == []
    valid = [unexecuted(pair) for pair in open_pairs() if pair.labels["label"] == "valid"]
    assert sum(valid) >= FLOOR_OF_FORMS * len(valid)


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
def test_executed_verdicts_on_every_so_many_pairs_are_right() -> None:
    chosen = [pair for pair in open_pairs() if "workspace" in pair.row][::EVERY]
    right = [accepts(pair, "terminal", Rule.FUNCTIONAL, FOLDER) == (pair.labels["label"] == "valid") for pair in chosen]
    assert len(right) >= 16
    assert sum(right) >= len(right) - 1


FLOOR_OF_FORMS = 0.3
