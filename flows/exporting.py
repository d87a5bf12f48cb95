"""`pivotrl export POOL OUT`: a pool as NeMo Gym pivot rows, which train elsewhere and are read here again."""

from __future__ import annotations

import json
from pathlib import Path

from pivotrl_core.files import write_jsonl
from pivotrl_core.pivots.pool import PoolRow, read_pool
from pivotrl_core.trajectories.nemo_gym_writer import PassRate, candidate_to_nemo_row


def export_text(pool: Path, out: Path, as_json: bool) -> str:
    """Write the rows of a pool, in its order, and say how many.

    Args:
        pool: A pool's folder, or its `pool.parquet`.
        out: Receives one JSON object a line.
        as_json: Say it as JSON.

    Raises:
        DataError: There is no such pool.
    """
    rows = read_pool(pool / "pool.parquet" if pool.is_dir() else pool)
    count = write_jsonl(out, (candidate_to_nemo_row(row.candidate, _pass_rate(row)) for row in rows))
    return json.dumps({"file": str(out), "rows": count}) if as_json else f"{out}: {count} rows"


def _pass_rate(row: PoolRow) -> PassRate | None:
    """What the profile found; nothing where it stopped early, for such a mean is none of all samples."""
    return None if row.censored else PassRate(row.successes, row.k)
