"""Flow `sweep`: the main job over many arms and seeds. A sweep is nothing but more arms, in a private worktree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import flow

from flows.ablation import LAMBDAS, sweep_arms
from flows.chain import Plan
from flows.request import Request, read_values, section
from flows.run import carry_out, name_flow_run
from tasks.settings import find_checkout


@flow(name="sweep", flow_run_name=name_flow_run, persist_result=False, validate_parameters=False)
def sweep(request: Mapping[str, Any] | None = None, run_id: str = "", checkout: str = "") -> dict[str, Any]:
    """Run every arm; one that fails does not stop those that do not need it."""
    return carry_out(
        "sweep", Request.from_json(request or {}), run_id, checkout, Plan(keep_going=True), private=True
    ).to_json()


def sweep_request(
    checkout: Path | None,
    base: Request,
    lambdas: Sequence[float] = LAMBDAS,
    seeds: Sequence[int] = (),
    controls: bool = True,
) -> Request:
    """A request with the arms of a sweep over the parameter file, and with other seeds where given."""
    values = read_values(base.file(checkout or find_checkout()))
    settings: dict[str, Any] = {"arms": sweep_arms(section(values, "arms"), lambdas, controls)}
    if seeds:
        settings["seeds"] = list(seeds)
    return Request({**settings, **base.settings}, base.arms, base.quick, base.params)
