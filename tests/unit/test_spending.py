"""What was paid now, and what the results that were taken over had cost."""

from __future__ import annotations

from pathlib import Path

from pivotrl_core.files import write_json
from tasks.graph import Outcome
from tasks.spending import spending_text

LOCK = """stages:
  profile@base:
    cmd: x
    outs: [{path: data/profiles/base, md5: a}, {path: reports/timings/profile-base.json, md5: b}]
  train@sft-0:
    cmd: x
    outs: [{path: reports/train/sft-0, md5: c}, {path: reports/timings/train-sft-0.json, md5: d}]
"""


def test_what_a_night_takes_over_is_told_beside_what_it_spends(tmp_path: Path) -> None:
    outcomes = {"profile@base": Outcome.UNCHANGED, "train@sft-0": Outcome.RAN, "gone@a": Outcome.RAN}
    assert spending_text(tmp_path, outcomes) == ""
    (tmp_path / "dvc.lock").write_text(LOCK)
    assert spending_text(tmp_path, outcomes) == ""
    metrics = {"cost/rollout_turns": 2400.0, "cost/generated_tokens": 50_000.0}
    write_json(tmp_path / "data/profiles/base/report.json", {"metrics": metrics})
    write_json(tmp_path / "reports/timings/profile-base.json", {"seconds": 3600.4})
    write_json(tmp_path / "reports/train/sft-0/report.json", {"metrics": {"cost/rollout_turns": None}})
    write_json(tmp_path / "reports/timings/train-sft-0.json", {"seconds": 60.0})
    counts = "2,400 rollout turns, 50,000 generated tokens"
    before = f"3,600 s of stages, {counts} when the restored and unchanged stages ran"
    assert spending_text(tmp_path, outcomes) == f"60 s of stages now; {before}"
    assert "blocks that were found stored" in spending_text(tmp_path, dict.fromkeys(outcomes, Outcome.RAN))
    (tmp_path / "last-good").mkdir()
    (tmp_path / "last-good" / "sft-0.dvc").touch()
    assert spending_text(tmp_path, outcomes).endswith("of the models that it starts from is in neither")
