"""Scoring all answers of one benchmark: in order, and through a small thread pool where each answer runs a sandbox.

Threads, not processes: the work is in the sandbox's own processes. The result does not depend on `workers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pivotrl_core.evaluation.protocol import Benchmark, Item, ItemScore
from pivotrl_core.verifiers import sandbox

NO_SANDBOX = "no sandbox: "  # how such a reason begins, in reports too


def skip_reason(benchmark: Benchmark) -> str | None:
    """Why this benchmark cannot be scored on this machine, as tables print it; None where it can."""
    if not benchmark.needs_sandbox:
        return None
    reason = sandbox.available()
    return None if reason is None else f"{NO_SANDBOX}{reason}"


def score_answers(
    benchmark: Benchmark, items: Sequence[Item], answers: Sequence[str], workers: int = 2
) -> list[ItemScore]:
    """Score `answers[n]` for `items[n]`, N of each, in order.

    Raises:
        SandboxUnavailableError: the benchmark runs code and there is no sandbox (ask `skip_reason` first).
    """
    if not benchmark.needs_sandbox or workers <= 1:
        return [benchmark.score(item, answer) for item, answer in zip(items, answers, strict=True)]
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="score") as pool:
        pairs = list(zip(items, answers, strict=True))
        return list(pool.map(lambda pair: benchmark.score(*pair), pairs))
