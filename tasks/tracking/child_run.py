"""One child run: metrics by step as they come, final metrics, inputs.

Invariants: a step of a metric is logged once, also when a stage was killed and writes the step again after its
checkpoint; a value that is not finite is logged as it is where MLflow can (NaN) and named in a tag, never as 0.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pivotrl_core.types import Json, canonical_json

BATCH = 1000
MAX_DIGEST = 36
NON_FINITE_TAG = "pivotrl.not_finite"
MAX_NAMED = 50


@dataclass(frozen=True, slots=True)
class Input:
    """A data input of a run. `digest` is an md5 as DVC writes it (32 hex, or 36 with `.dir`)."""

    name: str
    digest: str
    source: str
    context: str = "training"


def data_inputs(digests: Mapping[str, str]) -> list[Input]:
    """The inputs of a run from its provenance: md5 by path."""
    return [Input(PurePath(path).name, md5, path) for path, md5 in digests.items()]


@dataclass(frozen=True, slots=True)
class _Steps:
    """How many steps of a metric are logged, and the last of them; -1 for none."""

    count: int
    last: int


class ChildRun:
    """Logs into one run. Not for several threads at once."""

    def __init__(self, client: Any, run_id: str, flush_seconds: float = 2.0) -> None:
        self.run_id = run_id
        self._client = client
        self._flush_seconds = flush_seconds
        self._pending: list[Any] = []
        self._flushed_at = time.monotonic()
        self._steps: dict[str, _Steps] = {}
        self._not_finite: list[str] = []
        self._known = set(client.get_run(run_id).data.metrics)

    def log_metrics(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Log one step. Steps at or below a metric's last one are already there and are left alone."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        for name, value in metrics.items():
            known = self._known_steps(name)
            if step <= known.last:
                continue
            number = math.nan if value is None else float(value)
            if not math.isfinite(number):
                self._not_finite.append(f"{name}@{step}={number}")
            self._pending.append(Metric(name, number, now, step))
            self._steps[name] = _Steps(known.count + 1, step)
        if len(self._pending) >= BATCH or time.monotonic() - self._flushed_at >= self._flush_seconds:
            self.flush()

    def log_report(self, report: Mapping[str, Json]) -> None:
        """Log a report's `metrics` as final values.

        A metric that also has a curve gets the suffix `_final`; one step is no curve, but the value itself. The stages
        of one child share a run, so a cost gets its stage's name: `cost/rollout_turns` of train is
        `cost/train_rollout_turns`.
        """
        self.flush()
        stage = str(report.get("stage", ""))
        final = {self._final_name(_staged(stage, name)): value for name, value in report.get("metrics", {}).items()}
        self.log_metrics(0, final)
        self.flush()

    def _final_name(self, name: str) -> str:
        # A value that came with one step, or was logged before, is there already: `log_metrics` leaves step 0 out then.
        return f"{name}_final" if self._known_steps(name).count > 1 else name

    def log_inputs(self, inputs: Sequence[Input]) -> None:
        """Log data inputs with their digests; the same input twice is one."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        entries = []
        for one in inputs:
            if len(one.digest) > MAX_DIGEST:
                raise ValueError(f"input {one.name}: digest of {len(one.digest)} characters; give the md5 (32)")
            source = canonical_source(one.source)
            dataset = Dataset(one.name, one.digest, "local", source, schema=None, profile=None)
            entries.append(DatasetInput(dataset, [InputTag("mlflow.data.context", one.context)]))
        if entries:
            self._client.log_inputs(self.run_id, entries)

    def flush(self) -> None:
        """Write what is pending."""
        while self._pending:
            batch, self._pending = self._pending[:BATCH], self._pending[BATCH:]
            self._client.log_batch(self.run_id, metrics=batch)
        if self._not_finite:
            self._client.set_tag(self.run_id, NON_FINITE_TAG, ", ".join(self._not_finite[:MAX_NAMED]))
        self._flushed_at = time.monotonic()

    def finish(self, status: str = "FINISHED") -> None:
        """Flush and end the run: FINISHED, FAILED or KILLED."""
        self.flush()
        self._client.set_terminated(self.run_id, status)

    def _known_steps(self, name: str) -> _Steps:
        """What is logged of a metric; asked of the store once, for runs that are taken up again."""
        if name not in self._steps:
            history = self._client.get_metric_history(self.run_id, name) if name in self._known else []
            self._steps[name] = _Steps(len(history), max((point.step for point in history), default=-1))
        return self._steps[name]


def canonical_source(source: str) -> str:
    """The source as the JSON text that MLflow's interface shows."""
    return canonical_json({"uri": source})


def _staged(stage: str, name: str) -> str:
    return name.replace("cost/", f"cost/{stage}_", 1) if stage and name.startswith("cost/") else name
