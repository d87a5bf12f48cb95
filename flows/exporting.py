"""`pivotrl export POOL OUT`: a pool as NeMo Gym pivot rows, which train elsewhere and are read here again."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from pivotrl_core.config.folders import POOLS
from pivotrl_core.errors import DataError
from pivotrl_core.files import write_jsonl
from pivotrl_core.pivots.pool import PoolRow, read_pool
from pivotrl_core.trajectories.nemo_gym_writer import PassRate, candidate_to_nemo_row


def export_text(pool: str, out: Path, as_json: bool) -> str:
    """Write the rows of a pool, in its order, and say how many.

    Args:
        pool: A pool's folder, its `pool.parquet`, or RUN:ARM: that of a run that this checkout has recorded.
        out: Receives one JSON object a line.
        as_json: Say it as JSON.

    Raises:
        ConfigError: No such run.
        DataError: There is no such pool, or the run's data is not here.
    """
    with TemporaryDirectory() as scratch:
        place = Path(pool)
        if ":" in pool and not place.exists():
            place = _recorded(pool, Path(scratch) / "pool")
        rows = read_pool(place / "pool.parquet" if place.is_dir() else place)
        count = write_jsonl(out, (candidate_to_nemo_row(row.candidate, _pass_rate(row)) for row in rows))
    return json.dumps({"file": str(out), "rows": count}) if as_json else f"{out}: {count} rows"


def _recorded(pool: str, scratch: Path) -> Path:
    """The pool of an arm of a recorded run, out of DVC's cache."""
    from tasks.records import find_record
    from tasks.settings import dvc_cache, find_checkout
    from tasks.stored import link_output

    checkout = find_checkout()
    run, _, arm = pool.rpartition(":")
    outs = {path: md5 for stage in find_record(checkout, run).lock().values() for path, md5 in stage.outs.items()}
    if f"{POOLS}/{arm}" not in outs:
        known = sorted(path.removeprefix(f"{POOLS}/") for path in outs if path.startswith(f"{POOLS}/"))
        raise DataError(f"{pool}: the run has no such pool; it has {', '.join(known) or 'none'}")
    link_output(dvc_cache(checkout), outs[f"{POOLS}/{arm}"], scratch)
    return scratch


def _pass_rate(row: PoolRow) -> PassRate | None:
    """What the profile found; nothing where it stopped early, for such a mean is none of all samples."""
    return None if row.censored else PassRate(row.successes, row.k)
