"""Verdicts on the open part of the labelled pairs of coding turns stay as right as they were measured to be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pivotrl_core.bench.pairs import Pair, Part, Rule, accepts, read_pairs
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.rows import verify_row

FOLDER = Path(__file__).parents[1] / "labelled" / "software"
EVERY = 24
"""One pair of so many is executed here; `pivotrl bench pairs --domain software` executes all."""
FLOOR_OF_RULES = 0.25
"""Least share of valid pairs that rules alone recognise, without any workspace."""


@cache
def open_pairs() -> tuple[Pair, ...]:
    return tuple(pair for pair in read_pairs(FOLDER) if pair.labels["part"] == Part.OPEN)


def by_rules(pair: Pair) -> bool:
    """Whether a pair is accepted without its workspace."""
    return bool(verify_row(pair.row, "software")["reward"] == 1.0)


def test_rules_alone_accept_hardly_any_wrong_call_and_more_valid_ones_than_they_did() -> None:
    wrong = [by_rules(pair) for pair in open_pairs() if pair.labels["label"] == "wrong"]
    assert sum(wrong) <= 0.01 * len(wrong)
    valid = [by_rules(pair) for pair in open_pairs() if pair.labels["label"] == "valid"]
    assert sum(valid) >= FLOOR_OF_RULES * len(valid)


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
def test_executed_verdicts_on_every_so_many_pairs_are_right() -> None:
    chosen = [pair for pair in open_pairs() if "workspace" in pair.row][::EVERY]
    right = [accepts(pair, "software", Rule.FUNCTIONAL, FOLDER) == (pair.labels["label"] == "valid") for pair in chosen]
    assert len(right) >= 16
    assert sum(right) >= len(right) - 1
