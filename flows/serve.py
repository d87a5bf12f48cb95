"""The nightly deployment, served by this machine: cron with a named time zone, one run at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import serve
from prefect.client.schemas.schedules import CronSchedule
from prefect.schedules import Cron
from pydantic import ValidationError

from flows.nightly import nightly
from flows.request import Request
from pivotrl_core.errors import ConfigError

DEPLOYMENT = "nightly"


def check_schedule(cron: str, timezone: str) -> None:
    """Nothing, where Prefect takes both.

    Raises:
        ConfigError: No cron line, or no time zone; it says which.
    """
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as error:
        wrong = {one["loc"][0] for one in error.errors() if one["loc"]}
        told = [f"--cron {cron!r} is no cron line: five fields, such as '0 2 * * *'"] if "cron" in wrong else []
        if "timezone" in wrong:
            told.append(f"--timezone {timezone!r} is no time zone: an IANA name, such as Europe/Berlin")
        raise ConfigError("; ".join(told) or str(error)) from error


def make_deployment(checkout: Path, cron: str, timezone: str, request: Request) -> Any:
    """The deployment of `nightly`.

    Args:
        checkout: Works on this checkout.
        cron: Five fields.
        timezone: IANA name; the hour of a cron line means nothing without it.
        request: Overrides of every run.
    """
    return nightly.to_deployment(
        name=DEPLOYMENT,
        schedule=Cron(cron, timezone=timezone),
        parameters={"request": request.to_json(), "checkout": str(checkout)},
        concurrency_limit=1,
        tags=["pivotrl"],
        description="Pull what is new, profile it, train, evaluate and report.",
    )


def serve_nightly(checkout: Path, cron: str, timezone: str, request: Request) -> None:
    """Serve the deployment until stopped. Stopping leaves its schedule on."""
    serve(make_deployment(checkout, cron, timezone, request), pause_on_shutdown=False, limit=1)
