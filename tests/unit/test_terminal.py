"""Progress lines: what a stage says is shown, what DVC tells people who run it by hand is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows import terminal
from flows.terminal import LogEcho

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
