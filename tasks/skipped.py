"""What a stage left out for want of something that is there now. DVC sees inputs, not what a machine has installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pivotrl_core.evaluation.scoring import NO_SANDBOX
from pivotrl_core.files import read_json
from pivotrl_core.verifiers import sandbox


def lacked_sandbox(root: Path, outs: Sequence[str]) -> bool:
    """Whether a report among a stage's outputs skipped benchmarks for want of a sandbox that this machine has."""
    reports = [read_json(path) for path in (root / out / "report.json" for out in outs) if path.is_file()]
    reasons = [str(one.get("skipped")) for report in reports for one in report.get("benchmarks", [])]
    return any(reason.startswith(NO_SANDBOX) for reason in reasons) and sandbox.available() is None
