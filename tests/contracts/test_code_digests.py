"""Stored samples are named after the code that drew and judged them: each of these names holds all of that code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from pivotrl_core.engines.plain_engine import PlainEngine
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.engines.vllm_engine import CODE as VLLM_CODE
from pivotrl_core.pivots.profiling import READING_CODE
from tests.contracts.test_stage_closures import ROOT, closure, file_of

CORE = ROOT / "pivotrl_core"
# What goes wrong, how files and addresses are written, and which version this is: no verdict comes out of these.
TOLD = {"__init__.py", "addresses.py", "errors.py", "files.py"}
# Settings, models and ids reach the name of a sample as values; conversations are not stored.
SETTINGS = {f"verifiers/{name}.py" for name in ("comparators", "settings", "nemo_gym/settings")}
APART = TOLD | SETTINGS | {
    "types.py", "config", "engines/hub.py", "grpo/choices.py", "engines/session.py", "engines/histories.py",
}  # fmt: skip
ROWS = "rows"  # verdicts on rows of a file, which no stage asks for


def missing(modules: Sequence[str], digested: Sequence[Path], apart: set[str]) -> list[str]:
    """Files with code that the modules can reach and the digest leaves out, but for those that stand apart."""
    files = {path for module in modules for one in closure(module) if (path := file_of(one)) is not None}
    places = [*digested, *(CORE / name for name in apart)]
    return sorted(
        path.relative_to(CORE).as_posix()
        for path in files
        if not any(path == place or path.parent == place for place in places) and _has_code(path)
    )


def _has_code(path: Path) -> bool:
    """Whether a file says more than what its package is."""
    return len(ast.parse(path.read_text(encoding="utf-8")).body) > 1


def test_a_stored_verdict_is_named_after_all_the_code_that_read_and_judged() -> None:
    files = sorted((CORE / "verifiers").glob("[a-z]*.py"))
    verifiers = [f"pivotrl_core.verifiers.{file.stem}" for file in files if file.stem != ROWS]
    reading = ["pivotrl_core.engines.chat", "pivotrl_core.seeding", *verifiers]
    assert missing(reading, READING_CODE, TOLD) == []
    rules = ["pivotrl_core.environments.helpdesk.equivalence"]
    assert missing(rules, [*READING_CODE, CORE / "environments" / "helpdesk"], TOLD) == []


@pytest.mark.parametrize(("module", "engine"), [
    ("transformers_engine", TransformersEngine), ("plain_engine", PlainEngine),
])  # fmt: skip
def test_a_stored_sample_is_named_after_all_the_code_that_drew_it(
    module: str, engine: type[TransformersEngine]
) -> None:
    assert missing([f"pivotrl_core.engines.{module}"], engine.code, APART) == []


def test_samples_of_a_vllm_server_are_named_after_what_it_is_started_with() -> None:
    assert CORE / "engines" / "vllm_server.py" in VLLM_CODE


def test_the_walk_sees_what_a_verifier_takes_from_elsewhere() -> None:
    found = missing(["pivotrl_core.verifiers.terminal_action"], [CORE / "verifiers"], TOLD)
    assert found == ["trajectories/arguments.py", "trajectories/decoding.py", "types.py"]
