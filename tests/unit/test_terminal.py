"""Progress lines: what a stage says is shown, what DVC tells people who run it by hand is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows import terminal
from flows.terminal import LogEcho
from pivotrl_core.addresses import without_credentials

LOG = """Running stage 'train@sft-0':
> pivotrl stage train --key sft-0
train sft-0 step 1: loss 1.250
WARNING: something is odd

Generating lock file 'dvc.lock'
Updating lock file 'dvc.lock'

To track the changes with git, run:

\tgit add dvc.lock
Use `dvc push` to send your updates to remote storage.
"""


def test_only_the_stages_own_lines_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "_LOOK_SECONDS", 0.0)
    echo = LogEcho(tmp_path / "train.log", every_line=True)
    (tmp_path / "train.log").write_text(LOG)
    echo.poll()
    shown = [line.partition("| ")[2] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["train sft-0 step 1: loss 1.250", "WARNING: something is odd"]


PROGRAM = """
import logging
from flows.terminal import show_warnings
show_warnings()
show_warnings()
import prefect
with prefect.settings.temporary_settings({}):
    prefect.logging.configuration.setup_logging()
log = logging.getLogger("tasks.notify")
log.warning("no answer from %s", "http://me:hidden@example.org/hook?key=hidden")
log.info("nothing of note")
log.error("the run failed", extra={"told_anyway": True})
try:
    raise ValueError("no picture")
except ValueError:
    log.exception("no report")
"""


def test_what_our_modules_warn_of_is_said_once_although_prefects_console_is_off() -> None:
    environment = {**os.environ, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    lines = [line.partition("  ")[2] for line in answer.stderr.splitlines() if line[:1].isdigit()]
    assert lines == ["no answer from http://example.org/hook?...", "no report"]
    assert answer.stderr.count("ValueError: no picture") == 1


@pytest.mark.parametrize(("text", "shown"), [
    ("to http://me:hid@den@host/a?b=hidden&c=d.", "to http://host/a?..."),
    ("to 's3://me:hid/den@host' now", "to 's3://host' now"),
    ("to http://host:8080/path@revision, a@b", "to http://host:8080/path@revision, a@b"),
    ('"http://host/?list-type=2&X-Amz-Signature=hidden"', '"http://host/?..."'),
    ("is that so? yes", "is that so? yes"),
])  # fmt: skip
def test_addresses_are_shown_without_user_password_and_query(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
