"""The pool of one arm: the selected rows of a profile, and for every other candidate the reason why it is not there.

Invariant: candidates = pool + the sum over reasons of the drop report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pivotrl_core.errors import NoPivotsError
from pivotrl_core.pivots.profile_record import CANDIDATE_FIELDS, FOUND_FIELD, STATISTIC_FIELDS, candidate_from_columns
from pivotrl_core.pivots.selection import SelectionRule, describe
from pivotrl_core.pivots.tables import read_table, records, write_table
from pivotrl_core.trajectories.decisions import decision_of
from pivotrl_core.trajectories.formatting import OTHER_FORMAT
from pivotrl_core.types import Candidate, Json, Split
from pivotrl_core.verifiers.settings import VerdictReason

POOL_SCHEMA = pa.schema([*CANDIDATE_FIELDS, *STATISTIC_FIELDS, FOUND_FIELD])
DROP_SCHEMA = pa.schema([
    pa.field("candidate_id", pa.string(), nullable=False),
    pa.field("domain", pa.string(), nullable=False),
    pa.field("trajectory_id", pa.string(), nullable=False),
    pa.field("turn_index", pa.int64(), nullable=False),
    pa.field("split", pa.string(), nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("mu", pa.float64()),  # null: never profiled
    pa.field("sigma2", pa.float64()),
    pa.field("censored", pa.bool_()),
])  # fmt: skip
DROP_COLUMNS = ["candidate_id", "domain", "trajectory_id", "turn_index", "split"]
NOT_PROFILED = "not_profiled"
OTHER_SPLIT = "split_"


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows of the profile that were kept, the dropped rest with reasons, and the report."""

    rows: pd.DataFrame
    drops: list[dict[str, Json]]
    report: dict[str, Json]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A candidate of the pool with what its profile found: `successes` of `k`, mean and population variance.

    Mean and variance are `censored` where the profile stopped as soon as its rules had decided the candidate.
    `found` are the distinct successes as token ids, the likeliest under the profiled policy first.
    """

    candidate: Candidate
    planned: int
    k: int
    successes: int
    mu: float
    sigma2: float
    found: tuple[tuple[int, ...], ...]

    @property
    def censored(self) -> bool:
        """Whether it has fewer samples than were planned."""
        return self.k < self.planned


def build_pool(
    profile: pd.DataFrame,
    rule: SelectionRule,
    split: Split = Split.TRAIN,
    candidates: Sequence[Candidate] = (),
) -> Pool:
    """Apply a rule to the profiled candidates of one split.

    Args:
        profile: rows of `read_profile`.
        rule: decides the rows of `split`; rows of other splits are dropped as `split_<name>` beforehand.
        split: the split to train on.
        candidates: all candidates, so that those that were never profiled are accounted for too.

    Raises:
        NoPivotsError: nothing is left; the message counts what each condition removed.
    """
    own = profile[profile["split"] == str(split)].reset_index(drop=True)
    other = profile[profile["split"] != str(split)]
    decisions = rule.decide(own)
    kept = own[[decision.kept for decision in decisions]].reset_index(drop=True)
    drops = [
        _drop(row, decision.reason) for row, decision in zip(records(own), decisions, strict=True) if not decision.kept
    ]
    drops += [_drop(row, f"{OTHER_SPLIT}{row['split']}") for row in records(other)]
    drops += _unprofiled(profile, split, candidates)
    report = _report(own, kept, drops, rule)
    if kept.empty:
        raise NoPivotsError(_nothing_left(own, report, rule))
    return Pool(kept, drops, report)


def _drop(row: dict[str, Json], reason: str) -> dict[str, Json]:
    found = {"mu": row["mu"], "sigma2": row["sigma2"], "censored": row["k"] < row["planned"]}
    return {key: row[key] for key in DROP_COLUMNS} | {"reason": reason} | found


def _unprofiled(profile: pd.DataFrame, split: Split, candidates: Sequence[Candidate]) -> list[dict[str, Json]]:
    profiled = set(profile["candidate_id"])
    drops: list[dict[str, Json]] = []
    unknown = {"mu": None, "sigma2": None, "censored": None}
    for candidate in candidates:
        identity = candidate.id
        if identity not in profiled:
            reason = NOT_PROFILED if candidate.split is split else f"{OTHER_SPLIT}{candidate.split}"
            place = (identity, candidate.domain, candidate.trajectory_id, candidate.turn_index, str(candidate.split))
            drops.append(dict(zip(DROP_COLUMNS, place, strict=True)) | {"reason": reason} | unknown)
    return drops


def _report(
    own: pd.DataFrame, kept: pd.DataFrame, drops: list[dict[str, Json]], rule: SelectionRule
) -> dict[str, Json]:
    reasons = pd.Series([drop["reason"] for drop in drops], dtype="str").value_counts()
    return {
        "rule": describe(rule),
        "reads_profile": rule.reads_profile,
        "candidates": len(kept) + len(drops),
        "profiled": len(own),
        "kept": len(kept),
        "dropped": len(drops),
        "dropped_by_reason": {str(reason): int(count) for reason, count in sorted(reasons.items())},
        "by_domain": {
            str(domain): {"profiled": len(rows), "kept": int((kept["domain"] == domain).sum())}
            for domain, rows in own.groupby("domain", sort=True)
        },
        "by_decision": _by_decision(own, set(kept["candidate_id"])),
        "censored": int((own["k"] < own["planned"]).sum()),
        "mean_reward_histogram": mean_reward_histogram(own, kept),
    }


def _by_decision(own: pd.DataFrame, kept: set[str]) -> dict[str, Json]:
    """Profiled and kept candidates per kind of decision: where this arm's pivots concentrate."""
    profiled: Counter[str] = Counter()
    chosen: Counter[str] = Counter()
    for row in records(own):
        candidate = candidate_from_columns(row)
        decision = str(decision_of(candidate.state, candidate.expert))
        profiled[decision] += 1
        chosen[decision] += row["candidate_id"] in kept
    return {kind: {"profiled": count, "kept": chosen[kind]} for kind, count in sorted(profiled.items())}


def mean_reward_histogram(profiled: pd.DataFrame, kept: pd.DataFrame) -> dict[str, Json] | None:
    """Rows per value of mu, of all profiled and of the kept ones. With one K everywhere, all K + 1 values appear.

    None where rows were cut short: their means stop where they are most telling.
    """
    if (profiled["k"] < profiled["planned"]).any():
        return None
    ks = set(profiled["k"])
    values = set(profiled["mu"])
    if len(ks) == 1:
        k = int(ks.pop())
        values |= {successes / k for successes in range(k + 1)}
    mus = sorted(float(value) for value in values)
    return {
        "mu": mus,
        "profiled": [int((profiled["mu"] == mu).sum()) for mu in mus],
        "kept": [int((kept["mu"] == mu).sum()) for mu in mus],
    }


def _nothing_left(own: pd.DataFrame, report: dict[str, Json], rule: SelectionRule) -> str:
    reasons = ", ".join(f"{reason} removed {count}" for reason, count in report["dropped_by_reason"].items())
    return (
        f"no pivots are left of {report['candidates']} candidates ({report['profiled']} profiled in this split) under "
        f"{rule!r}: {reasons or 'there was no candidate'}. {_unreadable(own)}Raise lambda_diff or lower eta where "
        "candidates are too easy, sample more per candidate (profile.samples), or bring other trajectories"
    )


def _unreadable(own: pd.DataFrame) -> str:
    """What to do first where most samples could not be read, or say their calls in another way than is read."""
    verdicts = [verdict for text in own["components"] for verdict in json.loads(text)]
    malformed = [verdict for verdict in verdicts if verdict["reason"] == VerdictReason.MALFORMED]
    other = sum(verdict["components"].get("error") == OTHER_FORMAT for verdict in malformed)
    if not malformed or 2 * len(malformed) < len(verdicts):
        return ""
    told = f"{len(malformed)} of {len(verdicts)} samples were malformed"
    if other:
        return f"{told}, {other} of them calls in the other format: change data.tool_format (compact, hermes). "
    return f"{told}: look at them in the profile's rollouts; is data.tool_format the way this model writes calls? "


def write_pool(folder: Path, pool: Pool) -> None:
    """Write `pool.parquet` and `drops.parquet` into a folder."""
    columns = [field.name for field in POOL_SCHEMA]
    write_table(folder / "drops.parquet", "drops", DROP_SCHEMA, pool.drops)
    write_table(folder / "pool.parquet", "pool", POOL_SCHEMA, records(pool.rows[columns]))


def read_pool(path: Path) -> list[PoolRow]:
    """Read a `pool.parquet` in its order.

    Raises:
        DataError: the file is missing or is no pool of this version.
    """
    return [_pool_row(row) for row in records(read_table(path, "pool"))]


def _pool_row(row: dict[str, Json]) -> PoolRow:
    statistics = (int(row["planned"]), int(row["k"]), int(row["successes"]), float(row["mu"]), float(row["sigma2"]))
    found = tuple(tuple(int(token) for token in ids) for ids in row["found"])
    return PoolRow(candidate_from_columns(row), *statistics, found)
