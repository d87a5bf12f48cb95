"""The report that a stage writes holds finite numbers and null, whatever was measured."""

from __future__ import annotations

import math
from pathlib import Path

from pivotrl_core.files import read_json
from pivotrl_core.stages.context import write_report


def test_what_is_not_finite_is_null_in_a_report_and_ends_no_stage(tmp_path: Path) -> None:
    metrics = {"none": None, "nan": math.nan, "more": math.inf, "less": -math.inf, "zero": 0.0, "count": 3}
    write_report(tmp_path / "report.json", "train", metrics)
    found = read_json(tmp_path / "report.json")["metrics"]
    assert found == {"none": None, "nan": None, "more": None, "less": None, "zero": 0.0, "count": 3}
