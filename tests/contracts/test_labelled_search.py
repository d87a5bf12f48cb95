"""The verifier of browsing turns on the open part of its labelled pairs, with their index and without."""

from __future__ import annotations

from pathlib import Path

from pivotrl_core.bench.pairs import Pair, Part, Rule, accepts, read_pairs

FOLDER = Path(__file__).parents[1] / "labelled" / "search"


def share_accepted(pairs: list[Pair], label: str) -> float:
    judged = [accepts(pair, "search", Rule.FUNCTIONAL, FOLDER) for pair in pairs if pair.labels["label"] == label]
    return sum(judged) / len(judged)


def test_steps_are_judged_as_they_are_labelled() -> None:
    pairs = [pair for pair in read_pairs(FOLDER) if pair.labels["part"] == Part.OPEN]
    assert share_accepted(pairs, "valid") >= 0.96
    assert share_accepted(pairs, "wrong") <= 0.005
    queries = [pair for pair in pairs if "index" in pair.row]
    words = [Pair({**pair.row, "index": None}, pair.labels) for pair in queries]
    assert share_accepted(words, "valid") >= 0.4
    assert share_accepted(words, "wrong") <= 0.005
