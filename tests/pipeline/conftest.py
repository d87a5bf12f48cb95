"""A small real pipeline in a real git repository, and one real Prefect server for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.processes import end_guarded, last_lines
from tasks.settings import State, default_environment
from tasks.supervision import Limits, start_guarded

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(deadline=900.0, grace=3.0)
PATIENCE = 300.0  # seconds for each thing waited for; a minute of it may be a schedule's

PROGRAM = """
import json, pathlib, sys
stage, key = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
out = pathlib.Path
start = sys.argv[3] if len(sys.argv) > 3 else ""
with open(out(sys.argv[0]).resolve().parent / "calls.log", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")

def write(path, value):
    path = out(path); path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, sort_keys=True))

data = "".join(sorted(p.read_text() for p in out("data/pulled").iterdir()))
if stage == "warmup":
    write("models/base/weights", "base")
if stage == "candidates":
    write("data/candidates/report.json", {"metrics": {"rows": len(data.split())}})
if stage == "train":
    if out("data/pulled/break").exists():
        print("the row is wrong", file=sys.stderr); sys.exit(65)
    for step in range(3):
        write(f"reports/train/{key}/metrics.jsonl", "".join(
            json.dumps({"step": s, "metrics": {"train/reward_mean": s / 2}}) + "\\n" for s in range(step + 1)))
    begun = (out(start) / "weights").read_text()
    write(f"models/{key.replace('-', '/')}/weights", f"weights of {key} from {begun}: {data}")
    write(f"reports/train/{key}/report.json", {"stage": "train", "metrics": {"train/reward_mean": 1.0}})
if stage == "compare":
    write("reports/compare/report.json", {"rows": [{"arm": "pivotrl", "seeds": [0], "cells": {"m": {"mean": 1.0}}}],
        "paired": [{"a": "pivotrl", "b": "base", "metric": "eval/x/success_greedy", "low": -0.1, "high": 0.2}]})
    write("reports/compare/table.md", "| arm | m |\\n|---|---|\\n| pivotrl | 1.0 |\\n")
"""

DVC_YAML = """
vars: [graph.yaml]
stages:
  pull:
    cmd: pivotrl pull
    frozen: true
    outs: [data/pulled]
  warmup:
    cmd: python program.py warmup
    deps: [program.py]
    outs: [models/base]
  candidates:
    cmd: python program.py candidates
    deps: [data/pulled, program.py]
    params: [data.max_drop_share]
    outs: [data/candidates]
  train:
    foreach: ${trains}
    do:
      cmd: python program.py train ${key} ${item.start}
      deps: [data/candidates, data/pulled, program.py, "${item.start}"]
      params: [profile.samples]
      outs: ["models/${item.arm}/${item.seed}", "reports/train/${key}"]
  compare:
    cmd: python program.py compare
    deps: [reports/train/sft-0, reports/train/pivotrl-0, data/pulled, program.py]
    outs: [reports/compare]
"""

PARAMS = """
data: {max_drop_share: 0.2}
profile: {samples: 8}
seeds: [0]
arms:
  base: {}
  sft: {select: {rule: all}, train: {method: sft}}
  pivotrl: {select: {rule: pivots}, train: {method: grpo}}
"""


def git(root: Path, *arguments: str) -> str:
    """Run git in a folder."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True, text=True
    ).stdout


def make_checkout(root: Path) -> Path:
    """A git repository with the small pipeline, one commit, its own cache and folder remote."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text(
        "[core]\n    analytics = false\n    remote = local\n[cache]\n    dir = ../.state/dvc-cache\n"
        "['remote \"local\"']\n    url = ../.state/dvc-remote\n"
    )
    (root / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (root / ".gitignore").write_text("/.state/\n/data/\n/models/\n/reports/\n/calls.log\n")
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "params.yaml").write_text(PARAMS)
    (root / "program.py").write_text(PROGRAM)
    from pivotrl_core.config.graph import graph_text
    from pivotrl_core.config.loading import load_config

    (root / "graph.yaml").write_text(graph_text(load_config(root / "params.yaml")))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def pull_text(root: Path, **files: str) -> None:
    """Put files into data/pulled, as a pull would."""
    folder = root / "data" / "pulled"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def calls(root: Path) -> list[str]:
    """Stages that were executed in a folder, in order."""
    path = root / "calls.log"
    return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def running(
    command: list[str], cwd: Path, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A command and its process tree, all gone afterwards, however the block or we end."""
    with log.open("ab") as output, start_guarded(command, cwd, environment, output.fileno(), LIMITS) as guardian:
        try:
            yield guardian
        finally:
            end_guarded(guardian)
            print(f"--- {log.name}", *last_lines(log, 200), sep="\n")  # pytest shows it where the test fails


def wait_for(look: Callable[[], Any], what: str) -> Any:
    """What `look` returns once it is something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {PATIENCE:.0f} s")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh checkout of the small pipeline."""
    return make_checkout(tmp_path / "checkout")


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prefect API of our own start."""
    from tasks.server import prefect_api

    state = State(tmp_path_factory.mktemp("state"))
    saved = dict(os.environ)
    os.environ.update(
        {**default_environment(state), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    )
    os.environ.pop("PREFECT_API_URL", None)
    try:
        with prefect_api(state) as url:
            yield url
    finally:
        os.environ.clear()
        os.environ.update(saved)
