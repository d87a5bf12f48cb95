"""What a run has spent itself, and what the results had cost that it took over from earlier runs.

The comparison charges each arm for all that its result stands on, whenever that was paid, but for the training of a
model of an earlier night that a nightly run goes on from. This says what of it was paid now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pivotrl_core.files import read_json
from tasks.dvc_lock import LOCK_NAME, LockedStage, read_lock
from tasks.graph import Outcome
from tasks.last_good import starts_in

_COUNTS = {"cost/rollout_turns": "rollout turns", "cost/generated_tokens": "generated tokens"}


def spending_text(root: Path, outcomes: Mapping[str, Outcome]) -> str:
    """One line for people; empty where no stage says what it cost.

    Args:
        root: Checkout or worktree, with the reports and timings that its dvc.lock names.
        outcomes: What became of each stage.
    """
    lock = read_lock(root / LOCK_NAME)
    now = _sum(root, (lock[name] for name, one in outcomes.items() if one is Outcome.RAN and name in lock))
    before = _sum(root, (lock[name] for name, one in outcomes.items() if one is not Outcome.RAN and name in lock))
    if not now and not before:
        return ""
    parts = [f"{_words(now)} now"]
    if before:
        parts.append(f"{_words(before)} when the restored and unchanged stages ran")
    if any(one is Outcome.RAN and name.startswith("profile@") for name, one in outcomes.items()):
        parts.append("turns and tokens of profile blocks that were found stored count as now")
    if starts_in(root):
        parts.append("earlier nights' training of the models that it starts from is in neither")
    return "; ".join(parts)


def _sum(root: Path, stages: Iterable[LockedStage]) -> dict[str, float]:
    """Seconds and counts of stages, by the words for them."""
    total: dict[str, float] = {}
    for path in (root / out for stage in stages for out in stage.outs):
        file = path if path.suffix == ".json" else path / "report.json"
        value = read_json(file) if file.is_file() else {}
        metrics = value.get("metrics", {})
        found = {words: metrics.get(name) for name, words in _COUNTS.items()} | {"s of stages": value.get("seconds")}
        for words, number in found.items():
            if isinstance(number, int | float):
                total[words] = total.get(words, 0.0) + number
    return total


def _words(total: Mapping[str, float]) -> str:
    told = [f"{total[words]:,.0f} {words}" for words in ("s of stages", *_COUNTS.values()) if words in total]
    return ", ".join(told) or "nothing"
