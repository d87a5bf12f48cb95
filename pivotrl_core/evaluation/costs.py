"""What each arm cost: rollout turns and tokens of training, of the arm it started from, and of profiling.

Deterministic counts only; wall-clock seconds live in reports/timings and are never compared. Profiling is charged in
full to every arm whose selection rule reads the profile, or that replays what the profile found. Without replay an arm
of all turns pays for none, and neither does the random control: it borrows only the size of another arm's pool, which
favours the control. Where training profiled again, its turns are in the training's report, and count as profiling here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotrl_core.config.graph import Graph, TrainEntry, pool_of, profile_of
from pivotrl_core.types import Json

COST_LABELS = {
    "rollout_turns": "cost: rollout turns",
    "training_turns": "of them training",
    "start_turns": "of them for the start policy",
    "profiling_turns": "of them profiling",
    "generated_tokens": "cost: generated tokens",
    "prefilled_tokens": "cost: prefilled tokens",
    "trained_tokens": "cost: trained tokens",
    "judge_tokens": "cost: judge's tokens",
}
COUNTS = ("rollout_turns", "generated_tokens", "prefilled_tokens", "trained_tokens", "judge_tokens")

Reports = Mapping[str, Mapping[str, Json]]


def cost_by_arm(
    arms: Sequence[str], selects: Reports, trains: Reports, profiles: Reports, graph: Graph
) -> dict[str, dict[str, float]]:
    """Mean cost of one seed of each arm: totals, and `profiling_turns` and `start_turns` as the parts of them."""
    return {arm: _cost(arm, selects, trains, profiles, graph) for arm in arms}


def _cost(arm: str, selects: Reports, trains: Reports, profiles: Reports, graph: Graph) -> dict[str, float]:
    runs = {key: entry for key, entry in graph.get("trains", {}).items() if entry["arm"] == arm}
    keys = list(runs) or [key for key, report in trains.items() if report.get("arm") == arm]
    total: dict[str, float] = dict.fromkeys((*COUNTS[:3], "training_turns", "start_turns", "profiling_turns"), 0.0)
    for key in keys:
        own = _counts(trains.get(key, {}))
        start = _counts(trains.get(_start_key(runs.get(key)), {}))
        paid = [
            (own, "training_turns"),
            (start, "start_turns"),
            (_profile_counts(key, arm, selects, trains, profiles, graph), "profiling_turns"),
            (_profile_counts(_start_key(runs.get(key)), "", selects, trains, profiles, graph), "profiling_turns"),
        ]
        for part, name in paid:
            again = part.pop("reprofiling_turns", 0.0)
            total["profiling_turns"] += again / len(keys)
            total[name] += (part.get("rollout_turns", 0.0) - again) / len(keys)
            for count, value in part.items():
                total[count] = total.get(count, 0.0) + value / len(keys)
    return total


def pays_profile(select: Mapping[str, Json], train: Mapping[str, Json]) -> bool:
    """Whether an arm is charged for its profile, by the reports of its selection and its training."""
    return bool(select.get("reads_profile", True) or train.get("replay"))


def _counts(report: Mapping[str, Json]) -> dict[str, float]:
    metrics = report.get("metrics", {})
    names = (*COUNTS, "reprofiling_turns")
    return {name: float(metrics[f"cost/{name}"]) for name in names if metrics.get(f"cost/{name}") is not None}


def _start_key(run: TrainEntry | None) -> str:
    """`sft-0` for a policy that starts from models/sft/0; empty for one that starts from base."""
    parts = run["start"].split("/") if run else []
    return f"{parts[1]}-{parts[2]}" if len(parts) == 3 else ""


def _profile_counts(
    key: str, arm: str, selects: Reports, trains: Reports, profiles: Reports, graph: Graph
) -> dict[str, float]:
    pool = pool_of(graph, key) or arm
    if pool not in selects:
        return {}
    if not pays_profile(selects[pool], trains.get(key, {})):
        return {}
    return _counts(profiles.get(profile_of(graph, pool) or "base", {}))
