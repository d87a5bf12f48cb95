"""The profile's row, which is all that profiling and selection share, and the columns of a candidate in any file.

State, tools, expert action, metadata and verdicts are JSON text, so that the files can be read with pandas alone.
Success is binary: a verdict whose reward reaches the success threshold. mu is the mean of the k successes, and sigma^2
their population variance (divided by k), so that sigma^2 = mu (1 - mu), and exactly 0 where all k agree. Where k is
less than `planned` (K), the row was cut short once its decision stood, and mu and sigma^2 are censored. A staged
profile has a column more: what was decided for each of its rules where a candidate was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pivotrl_core.pivots.tables import read_table, records, write_table
from pivotrl_core.types import (
    Candidate,
    Json,
    Split,
    Verdict,
    message_from_json,
    message_to_json,
    messages_to_json,
    ordered_json,
    tools_from_json,
    tools_to_json,
)

CANDIDATE_FIELDS = [
    pa.field("candidate_id", pa.string(), nullable=False),
    pa.field("domain", pa.string(), nullable=False),
    pa.field("trajectory_id", pa.string(), nullable=False),
    pa.field("turn_index", pa.int64(), nullable=False),
    pa.field("split", pa.string(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("tools", pa.string(), nullable=False),
    pa.field("expert", pa.string(), nullable=False),
    pa.field("metadata", pa.string(), nullable=False),
]
STATISTIC_FIELDS = [
    pa.field("planned", pa.int64(), nullable=False),
    pa.field("k", pa.int64(), nullable=False),
    pa.field("successes", pa.int64(), nullable=False),
    pa.field("mu", pa.float64(), nullable=False),
    pa.field("sigma2", pa.float64(), nullable=False),
]
FOUND_FIELD = pa.field("found", pa.list_(pa.list_(pa.int32())), nullable=False)
COMPONENTS_FIELD = pa.field("components", pa.string(), nullable=False)
CANDIDATE_SCHEMA = pa.schema(CANDIDATE_FIELDS)
PROFILE_SCHEMA = pa.schema([*CANDIDATE_FIELDS, *STATISTIC_FIELDS, FOUND_FIELD, COMPONENTS_FIELD])
EARLY = "early"  # JSON: by rule, whether it keeps the candidate as far as a staged profile can tell
STAGED_SCHEMA = pa.schema([*PROFILE_SCHEMA, pa.field(EARLY, pa.string(), nullable=False)])


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A candidate and the verdicts of its sampled actions.

    Attributes:
        found: ids of each distinct one that was a success, the likeliest first.
        planned: K, how many there would have been at most; as many as there are where it is not given.
        early: of a staged profile, what was decided by which rule where the candidate was stopped.
    """

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    success_threshold: float = 1.0
    found: tuple[tuple[int, ...], ...] = ()
    planned: int | None = None
    early: Mapping[str, bool] | None = None

    def __post_init__(self) -> None:
        if not self.verdicts:
            raise ValueError(f"candidate {self.candidate.id}: a profile row needs at least one verdict")

    @property
    def k(self) -> int:
        """The number of samples."""
        return len(self.verdicts)

    @property
    def successes(self) -> int:
        """How many of the samples reached the success threshold."""
        return sum(verdict.reward >= self.success_threshold for verdict in self.verdicts)


def mean_and_variance(successes: int, k: int) -> tuple[float, float]:
    """(mu, sigma^2) of `successes` ones among `k` values: s / k, and s (k - s) / k^2."""
    return successes / k, successes * (k - successes) / (k * k)


def candidate_columns(candidate: Candidate) -> dict[str, Json]:
    """A candidate as the columns of a file."""
    return {
        "candidate_id": candidate.id,
        "domain": candidate.domain,
        "trajectory_id": candidate.trajectory_id,
        "turn_index": candidate.turn_index,
        "split": str(candidate.split),
        "state": ordered_json(messages_to_json(candidate.state)),
        "tools": ordered_json(tools_to_json(candidate.tools)),
        "expert": ordered_json(message_to_json(candidate.expert)),
        "metadata": ordered_json(dict(candidate.metadata)),
    }


def candidate_from_columns(row: Mapping[str, Json]) -> Candidate:
    """Inverse of `candidate_columns`; ids of calls are not content and are not kept."""
    return Candidate(
        state=tuple(message_from_json(message) for message in json.loads(row["state"])),
        tools=tools_from_json(json.loads(row["tools"])),
        expert=message_from_json(json.loads(row["expert"])),
        trajectory_id=str(row["trajectory_id"]),
        turn_index=int(row["turn_index"]),
        domain=str(row["domain"]),
        split=Split(row["split"]),
        metadata=json.loads(row["metadata"]),
    )


def profile_columns(row: ProfileRow) -> dict[str, Json]:
    """A profile row as the columns of a file."""
    mu, sigma2 = mean_and_variance(row.successes, row.k)
    verdicts = [{"reward": v.reward, "reason": v.reason, "components": dict(v.components)} for v in row.verdicts]
    # ASCII: what a policy wrote may hold half a surrogate pair, which UTF-8 cannot carry.
    components = json.dumps(verdicts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    statistics = {"planned": row.planned or row.k, "k": row.k, "successes": row.successes, "mu": mu, "sigma2": sigma2}
    found = [list(ids) for ids in row.found]
    columns = {**candidate_columns(row.candidate), **statistics, "found": found, "components": components}
    return columns if row.early is None else {**columns, EARLY: ordered_json(dict(row.early))}


def write_candidates(path: Path, candidates: Iterable[Candidate]) -> None:
    """Write candidates, one row each, in their order."""
    write_table(path, "candidates", CANDIDATE_SCHEMA, (candidate_columns(candidate) for candidate in candidates))


def read_candidates(path: Path) -> list[Candidate]:
    """Read candidates in their order.

    Raises:
        DataError: the file is missing or is no candidates file of this version.
    """
    return [candidate_from_columns(row) for row in records(read_table(path, "candidates"))]


def write_profile(path: Path, rows: Sequence[ProfileRow]) -> None:
    """Write a profile, one row per candidate, in their order; either all are of a staged profile or none is."""
    staged = any(row.early is not None for row in rows)
    schema = STAGED_SCHEMA if staged else PROFILE_SCHEMA
    write_table(path, "profile", schema, [profile_columns(row) for row in rows])


def read_profile(path: Path) -> pd.DataFrame:
    """Read a profile as a data frame with the columns of `PROFILE_SCHEMA`, or of `STAGED_SCHEMA`.

    Raises:
        DataError: the file is missing or is no profile of this version.
    """
    return read_table(path, "profile")
