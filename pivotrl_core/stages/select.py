"""Select: an arm's pool from a profile, with the reason why each other candidate is not in it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from pivotrl_core.config.arms import SelectConfig
from pivotrl_core.config.folders import CANDIDATES, POOLS, PROFILES
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots.pool import build_pool, write_pool
from pivotrl_core.pivots.profile_record import read_candidates, read_profile
from pivotrl_core.stages.context import StageContext, timed, write_report
from pivotrl_core.stages.rules import check_domains, selection_rule


def run_select(context: StageContext, key: str, arm: str, profile: str) -> None:
    """Write data/pools/KEY: pool.parquet, drops.parquet, report.json."""
    settings = context.config.arms[arm].select
    if settings is None:
        raise ConfigError(f"arms.{arm}.select is missing")
    with timed(context, f"select-{key}"):
        frame = context.path(f"{PROFILES}/{profile}/profile.parquet")
        select_pool(context, arm, settings, frame, context.path(f"{POOLS}/{key}"), profile)


def select_pool(
    context: StageContext, arm: str, settings: SelectConfig, profile: Path, out: Path, name: str
) -> pd.DataFrame:
    """Write an arm's pool from a profile's file into `out`, with a report that calls the profile `name`; its rows.

    Raises:
        ConfigError: the rule names a domain that no candidate has.
        NoPivotsError: the rule leaves none.
    """
    frame = read_profile(profile)
    check_domains(settings, frame["domain"], f"arms.{arm}.select")
    candidates = read_candidates(context.path(f"{CANDIDATES}/candidates.parquet"))
    pool = build_pool(frame, selection_rule(settings), candidates=candidates)
    write_pool(out, pool)
    metrics = {
        "select/pool_size": len(pool.rows),
        "select/pool_share": len(pool.rows) / pool.report["profiled"],
        "select/message_share": _message_share(pool.rows),
        **{f"select/dropped_{reason}": count for reason, count in pool.report["dropped_by_reason"].items()},
    }
    if not pool.report["censored"]:
        metrics["select/pool_mean_reward"] = float(pool.rows["mu"].mean())
    lambda_diff = getattr(settings, "lambda_diff", None)
    if lambda_diff is not None:
        metrics["select/lambda_diff"] = lambda_diff
    write_report(out / "report.json", "select", metrics, arm=arm, profile=name, **pool.report)
    return pool.rows


def _message_share(rows: pd.DataFrame) -> float:
    """Share of rows at which the expert says something and calls nothing: where no domain judges it, any words pass."""
    return float(sum("tool_calls" not in json.loads(expert) for expert in rows["expert"]) / len(rows))
