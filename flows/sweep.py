"""Flow `sweep`: the main job over many arms and seeds. A sweep is nothing but more arms, in a private worktree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from prefect import flow

from flows.ablation import LAMBDAS, Sweep
from flows.chain import Plan
from flows.request import Request
from flows.run import carry_out, name_flow_run, read_request


@flow(name="sweep", flow_run_name=name_flow_run, persist_result=False, validate_parameters=False)
def sweep(request: Mapping[str, Any] | None = None, run_id: str = "", checkout: str = "") -> dict[str, Any]:
    """Run every arm; one that fails does not stop those that do not need it.

    Args:
        request: See `flows.request.Request`; one that names no arms gets those of a sweep.
        run_id: Made from the time where empty.
        checkout: Folder of the checkout (default: the one around the working folder).
    """
    asked = with_arms(read_request("sweep", request, run_id, checkout))
    return carry_out("sweep", asked, run_id, checkout, Plan(keep_going=True), private=True).to_json()


def with_arms(request: Request) -> Request:
    """The request with the arms of a sweep, unless it says which ones (in `sweep`), or has `arms` in its settings."""
    if request.sweep is not None or "arms" in request.settings:
        return request
    return replace(request, sweep=Sweep())


def sweep_request(
    base: Request, lambdas: Sequence[float] = LAMBDAS, seeds: Sequence[int] = (), controls: bool = True
) -> Request:
    """A request with the arms of a sweep over its parameters, and with other seeds where given."""
    settings = {**({"seeds": list(seeds)} if seeds else {}), **base.settings}
    return replace(base, settings=settings, sweep=Sweep(tuple(lambdas), controls))
