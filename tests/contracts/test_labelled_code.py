"""The verifier of programs on a fixed sample of the open part of its labelled pairs: each takes two sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pivotrl_core.bench.pairs import Part, Rule, accepts, read_pairs
from pivotrl_core.verifiers import sandbox

FOLDER = Path(__file__).parents[1] / "labelled" / "code"
EACH_LABEL = 12


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
def test_programs_are_judged_as_they_are_labelled() -> None:
    pairs = [pair for pair in read_pairs(FOLDER) if pair.labels["part"] == Part.OPEN]
    errors = {"valid": 0, "wrong": 0}
    for label in errors:
        some = sorted((pair for pair in pairs if pair.labels["label"] == label), key=lambda pair: pair.labels["pair"])
        for pair in some[:EACH_LABEL]:
            errors[label] += accepts(pair, "code", Rule.FUNCTIONAL, FOLDER) != (label == "valid")
    # Measured on all of the open part: less than one in a hundred of either label.
    assert errors["valid"] <= 1
    assert errors["wrong"] <= 1
