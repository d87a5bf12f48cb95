"""What is deployed: a cron line with a named time zone, one at a time, and every flow under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.nightly import nightly
from flows.reproduce import reproduce
from flows.request import Request
from flows.run import run
from flows.serve import check_schedule, make_deployment
from flows.sweep import sweep
from pivotrl_core.errors import ConfigError


def test_the_flows_go_by_the_names_of_the_commands() -> None:
    assert [flow.name for flow in (run, sweep, nightly, reproduce)] == ["run", "sweep", "nightly", "reproduce"]


def test_the_nightly_deployment_has_a_time_zone_and_runs_one_at_a_time() -> None:
    deployment = make_deployment(Path("/a/checkout"), "0 2 * * *", "Europe/Berlin", Request(quick=True))
    (schedule,) = deployment.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 2 * * *", "Europe/Berlin")
    assert deployment.concurrency_limit == 1
    assert deployment.parameters["request"]["quick"] is True
    assert deployment.parameters["checkout"] == "/a/checkout"


def test_a_wrong_cron_line_and_a_wrong_time_zone_are_named() -> None:
    check_schedule("0 2 * * *", "Etc/UTC")
    with pytest.raises(ConfigError, match="--cron 'nonsense' is no cron line"):
        check_schedule("nonsense", "UTC")
    with pytest.raises(ConfigError, match="--timezone 'Mars/Base' is no time zone"):
        check_schedule("0 2 * * *", "Mars/Base")
