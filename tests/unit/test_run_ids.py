"""Run ids name folders and git refs: what could lead out of them, or is no ref, is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from pivotrl_core.errors import ConfigError
from tasks.run_ids import check_run_id, made_run_id, new_run_id
from tasks.sweepers import _run_id_of


@pytest.mark.parametrize(
    "text", ["../..", "..", ".", "", "/a", "a/b", "my sweep", "a.lock", "-x", "a\n", "ü", "x" * 65]
)
def test_an_id_that_is_no_plain_word_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        check_run_id(text)


@pytest.mark.parametrize("text", ["run-1", "my_sweep", "20260314-020000-9f3a", "X"])
def test_an_id_of_letters_and_digits_is_a_ref_that_git_takes(text: str, tmp_path: Path) -> None:
    assert check_run_id(text) == text
    subprocess.run(["git", "check-ref-format", f"refs/pivotrl/runs/{text}"], check=True, cwd=tmp_path)


def test_the_made_id_of_a_scheduled_run_is_found_in_its_name() -> None:
    made = new_run_id()
    assert check_run_id(made) == made_run_id(f"nightly-{made}") == made
    assert made_run_id("lucky-otter") is None


def test_a_dead_flow_run_is_known_by_the_id_that_it_was_given() -> None:
    def found(name: str, **parameters: str) -> str | None:
        return _run_id_of(SimpleNamespace(name=name, parameters=parameters))

    assert found("my-sweep", run_id="my-sweep") == "my-sweep"
    assert found("nightly-20260314-020000-9f3a", run_id="") == "20260314-020000-9f3a"
    assert found("../..", run_id="../..") is None
    assert found("lucky-otter") is None
