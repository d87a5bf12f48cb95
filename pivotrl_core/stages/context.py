"""What every stage gets, and the files that every stage leaves: a report, a timing, and metrics by step.

`report.json` and `metrics.jsonl` are deterministic; wall-clock figures go to `reports/timings/STAGE.json` alone, which
nothing depends on and nothing compares.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl_core.config.folders import PULLED, TIMINGS
from pivotrl_core.config.tree import Config
from pivotrl_core.files import read_json, write_json

SCHEMA_VERSION = 1
BLOCKS = Path("profile-blocks")
"""Of the store: for each block its samples and verdicts, and a file of its cost, with the time of the last reading."""


@dataclass(frozen=True, slots=True)
class Places:
    """What a verifier needs of a machine: see `checkout` and `store` of `StageContext`.

    `workspaces` is the folder that rows name theirs below; None: actions are not executed in any.
    """

    checkout: Path
    store: Path
    workspaces: Path | None = None


@dataclass(frozen=True, slots=True)
class StageContext:
    """Where a stage works.

    Attributes:
        root: checkout or worktree; inputs and outputs lie below it at fixed places.
        scratch: this stage's own folder for what a killed run goes on from; outlives a kill, not a result.
        store: shared by all runs: profile blocks, named by their content.
        models: cache of converted models.
        checkout: what relative paths of the configuration are relative to; a private worktree's is the main checkout.
    """

    config: Config
    root: Path
    scratch: Path
    store: Path
    models: Path
    checkout: Path

    @property
    def places(self) -> Places:
        """Where a verifier finds and keeps what it needs."""
        return Places(self.checkout, self.store, pulled_workspaces(self.root))

    def path(self, relative: str | Path) -> Path:
        """A place below the root."""
        return self.root / relative


def pulled_workspaces(root: Path) -> Path | None:
    """The folder that pulled rows name workspaces below, where some came with them."""
    pulled = root / PULLED
    return pulled if any((pulled / "workspaces").glob("*")) else None


class MetricsFile:
    """`metrics.jsonl`: one line a step, as it comes. A resumed stage begins with the lines of its checkpoint."""

    def __init__(self, path: Path, lines: list[dict[str, Any]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lines = lines
        with path.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line, sort_keys=True) + "\n")

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one step where a follower can see them at once."""
        line = {"step": step, "metrics": dict(metrics)}
        self._lines.append(line)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")


@contextmanager
def timed(context: StageContext, name: str) -> Iterator[None]:
    """Write the stage's wall-clock seconds and machine when the block ends well."""
    import torch

    started = time.time()
    yield
    machine = {
        "cpu": _cpu_name(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
        "python": platform.python_version(), "torch": torch.__version__,
    }  # fmt: skip
    timing = {"stage": name, "started": started, "seconds": time.time() - started, "machine": machine}
    write_json(context.path(f"{TIMINGS}/{name}.json"), timing)


def write_report(path: Path, stage: str, metrics: Mapping[str, float | None], **rest: Any) -> None:
    """Write a stage's report. A metric that is not finite is written as null, never as 0."""
    clean = {name: value if value is not None and math.isfinite(value) else None for name, value in metrics.items()}
    write_json(path, {"schema_version": SCHEMA_VERSION, "stage": stage, "metrics": clean, **rest})


def read_report(path: Path) -> dict[str, Any]:
    """A report that another stage wrote."""
    report: dict[str, Any] = read_json(path)
    return report


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
