"""DVC's remote on a real S3 server, reached by the environment alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.graph import Workplace, commit_pull, fetch_outputs, push
from tasks.settings import State, child_environment

from .conftest import pull_text

if TYPE_CHECKING:
    from tests.s3_server import S3Server

pytest_plugins = ["tests.s3_server"]


def test_data_go_to_a_bucket_and_come_back_with_nothing_but_its_name_in_the_settings(
    checkout: Path, s3_environment: S3Server, bucket: str
) -> None:
    dvc = [sys.executable, "-m", "dvc", "remote", "add", "--default", "team", f"s3://{bucket}/pivotrl"]
    subprocess.run(dvc, cwd=checkout, check=True, capture_output=True)
    state = State(checkout / ".state")
    place = Workplace(checkout, child_environment(checkout, state, offline=False), state.runs / "r" / "logs")
    pull_text(checkout, a="one two")
    commit_pull(place)
    push(place, ["pull"])
    stored = s3_environment.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert {item["Key"].split("/")[0] for item in stored} == {"pivotrl"}
    shutil.rmtree(state.cache)
    shutil.rmtree(checkout / "data")
    fetch_outputs(place, ["pull"])
    assert (checkout / "data/pulled/a").read_text() == "one two"
    assert s3_environment.endpoint not in (checkout / ".dvc/config").read_text()
