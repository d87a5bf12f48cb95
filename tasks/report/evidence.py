"""What lies behind the numbers: figures, pools and drops, cost, families of tasks, and items on which arms disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pivotrl_core.config.folders import EVALUATIONS
from pivotrl_core.evaluation.comparison import BASE
from pivotrl_core.evaluation.costs import COST_LABELS
from pivotrl_core.evaluation.verdict import in_domain_metrics, standing
from pivotrl_core.types import Json
from tasks.figures import Figure
from tasks.report.markup import details, note, section, span, table, text
from tasks.run_reports import RunReports

if TYPE_CHECKING:
    import pandas as pd

SAMPLES = 12
LONGEST_ANSWER = 280


def figures_section(figures: Sequence[Figure]) -> str:
    """The figures as inline SVG."""
    parts = [
        f"<figure><h3>{text(figure.title)}</h3>{figure.svg}<figcaption>{text(figure.caption)}</figcaption></figure>"
        for figure in figures
    ]
    return section("figures", "Figures", f'<div class="figures">{"".join(parts)}</div>' if parts else "")


def pools_section(run: RunReports) -> str:
    """Size of each pool and why every other candidate is not in it."""
    rows = []
    for key, report in run.pools.items():
        if "kept" not in report:
            continue
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in report.get("dropped_by_reason", {}).items())
        share = report["kept"] / max(1, report["profiled"])  # select/pool_share: held-out splits are in no pool
        rows.append([text(key), text(report.get("rule", "")), f"{report['candidates']:,}", f"{report['profiled']:,}",
                     f"{report['kept']:,}", f"{share:.0%}", text(reasons or "none")])  # fmt: skip
    head = ["pool", "rule", "candidates", "profiled", "in the pool", "share of profiled", "not in the pool, by reason"]
    pools = table(head, rows, "plain")
    lead = "Every candidate is in the pool or has a reason not to be; the counts add up."
    return section("pools", "Pools and drops", pools, _data_drops(run), lead=lead)


def _data_drops(run: RunReports) -> str:
    reasons = run.candidates.get("dropped_by_reason") or {}
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    return note(f"Turns dropped before profiling: {listed}.") if listed else ""


def cost_section(run: RunReports) -> str:
    """Counts, which are compared, and wall-clock, which is not."""
    cost = run.comparison.get("cost", {})
    names = [name for name in COST_LABELS if any(cost[arm].get(name) for arm in cost)]
    rows = [
        [text(COST_LABELS[name].removeprefix("cost: ")), *(f"{cost[arm].get(name, 0.0):,.0f}" for arm in cost)]
        for name in names
    ]
    lead = (
        "Mean over an arm's seeds. Profiling is counted in full for every arm whose rule reads the profile or that "
        "replays what it found; a random control without replay borrows only its pool's size and is not charged."
    )
    return section("cost", "What it cost", table(["", *cost], rows, "wide"), _wall_clock(run.timings), lead=lead)


def _wall_clock(timings: Mapping[str, Mapping[str, Json]]) -> str:
    rows = [[text(one.get("stage", name)), f"{float(one.get('seconds', 0.0)):,.0f}"] for name, one in timings.items()]
    total = sum(float(one.get("seconds", 0.0)) for one in timings.values())
    body = table(["stage", "seconds"], rows, "plain narrow")
    label = (
        f"Wall-clock by stage, added up {total / 60:,.1f} minutes; stages that ran side by side took less together "
        "(depends on the machine; not compared by reproduce)"
    )
    return details(label, body)


def families_section(run: RunReports) -> str:
    """In-domain success by family of tasks, greedy, over all seeds of an arm."""
    frames = _read_all(run, "episodes.parquet")
    if frames is None or "family" not in frames:
        return ""
    greedy = frames[frames["temperature"].astype(float) == 0.0]
    means = greedy.assign(success=greedy["success"].astype(float)).pivot_table(
        "success", "family", "arm", aggfunc="mean"
    )
    counts = greedy.groupby("family")["task_id"].nunique().to_dict()
    arms = [arm for arm in run.arms if arm in means]
    rows = [
        [f"{text(family)} {span('interval', f'n = {counts[family]}')}",
         *(f"{100 * rates[arm]:.0f}" for arm in arms)]
        for family, rates in means.to_dict("index").items()
    ]  # fmt: skip
    lead = "Greedy success in per cent. Families are small: read them as where to look, not as results."
    return section("families", "Success by family of tasks", table(["family", *arms], rows, "wide"), lead=lead)


def disagreements_section(run: RunReports) -> str:
    """A sample of items that the leading arm and base answered with different success."""
    metrics = in_domain_metrics(run.comparison)
    place = standing(run.comparison, metrics[0]) if metrics else None
    items = _read_all(run, "items.parquet")
    if place is None or items is None:
        return ""
    leaders = [arm for arm in (place.leader, *place.level_with) if arm != BASE]
    if not leaders:
        return ""
    first = items[items["arm"] == leaders[0]].drop_duplicates(["benchmark", "item_id"])
    base = items[items["arm"] == BASE].drop_duplicates(["benchmark", "item_id"])
    both = first.merge(base, on=["benchmark", "item_id"], suffixes=("", "_base"))
    differing = both[both["score"].astype(float) != both["score_base"].astype(float)]
    sample = differing.groupby("benchmark", sort=True).head(2).head(SAMPLES)
    rows = [
        [f"{text(row['benchmark'])} {span('interval', row['item_id'])}", _answer(row["answer"], row["score"]),
         _answer(row["answer_base"], row["score_base"])]
        for row in sample.to_dict("records")
    ]  # fmt: skip
    lead = f"{len(sample)} of {len(differing)} items on which {leaders[0]} and base score differently (first seed)."
    return section(
        "disagreements", "Where they disagree", table(["item", leaders[0], BASE], rows, "answers"), lead=lead
    )


def _answer(answer: object, score: object) -> str:
    written = str(answer)
    short = written if len(written) <= LONGEST_ANSWER else f"{written[:LONGEST_ANSWER]} … ({len(written):,} characters)"
    value = float(str(score))
    kind = "up" if value >= 1.0 else "down" if value <= 0.0 else "level"
    return f"{span(kind, f'score {value:g}')}<pre>{text(short)}</pre>"


def _read_all(run: RunReports, name: str) -> pd.DataFrame | None:
    import pandas as pd

    frames = []
    for key, report in run.evaluations.items():
        path: Path = run.root / EVALUATIONS / key / name
        if path.is_file():
            frames.append(pd.read_parquet(path).assign(arm=str(report["arm"]), seed=int(report["seed"])))
    return pd.concat(frames, ignore_index=True).sort_values("seed", kind="stable") if frames else None
