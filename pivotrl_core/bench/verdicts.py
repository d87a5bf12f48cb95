"""What verdicts cost: latency of each, and how many a second one core gives, for every verifier that there is.

Each round has a verifier of its own, so that what is kept of a candidate is worked out once for its eight actions, as
in a profile. Latencies are wall clock; verdicts a second and core are verdicts over processor seconds, those of ended
child processes among them. Verdicts that execute are told apart from such as find what was executed before.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pivotrl_core.bench.measuring import Say
from pivotrl_core.bench.verdict_cases import Case, cases_in, cases_of
from pivotrl_core.bench.verdict_executions import Execution, executions
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import GRADERS, get_verifier

BENCH = "verify"


@dataclass(frozen=True, slots=True)
class VerdictCost:
    """What verdicts of one verifier cost, or why it was not measured. Latencies in microseconds."""

    verifier: str
    setting: Mapping[str, Any]
    p50_us: float = 0.0
    p95_us: float = 0.0
    per_second_per_core: float = 0.0
    skipped: str = ""

    def line(self) -> str:
        """One line of JSON."""
        told: dict[str, Any] = {"bench": BENCH, "verifier": self.verifier, "setting": dict(self.setting)}
        if self.skipped:
            return json.dumps({**told, "skipped": self.skipped})
        figures = {"p50_us": round(self.p50_us, 2), "p95_us": round(self.p95_us, 2)}
        return json.dumps({**told, **figures, "per_second_per_core": round(self.per_second_per_core, 1)})

    def text(self) -> str:
        """The same for people."""
        about = ", ".join(f"{name} {value}" for name, value in self.setting.items())
        if self.skipped:
            return f"verify {self.verifier}\n  skipped: {self.skipped}"
        return (
            f"verify {self.verifier}\n  {about}\n  median {self.p50_us:.1f} us, p95 {self.p95_us:.1f} us, "
            f"{self.per_second_per_core:.0f} verdicts a second and core"
        )


@dataclass(slots=True)
class Clock:
    """Latencies in seconds, and processor seconds, of all verdicts so far."""

    seconds: list[float] = field(default_factory=list)
    processor: float = 0.0

    def time(self, verifier: Verifier, cases: Sequence[Case]) -> None:
        """Give all verdicts of some cases."""
        now, latencies = time.perf_counter, self.seconds
        verify = verifier.verify
        begun = processor_seconds()
        for case in cases:
            candidate = case.candidate
            for action in case.actions:
                before = now()
                verify(candidate, action)
                latencies.append(now() - before)
        self.processor += processor_seconds() - begun

    def cost(self, name: str, setting: Mapping[str, Any]) -> VerdictCost:
        """The account."""
        ordered = sorted(self.seconds)
        p50, p95 = (1e6 * ordered[min(len(ordered) - 1, len(ordered) * q // 100)] for q in (50, 95))
        return VerdictCost(name, {**setting, "verdicts": len(ordered)}, p50, p95, len(ordered) / self.processor)


def processor_seconds() -> float:
    """User and system time of this process and of its children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def rule_cost(
    name: str, make: Callable[[], Verifier], cases: Sequence[Case], where: str, seconds: float
) -> VerdictCost:
    """The cost of verdicts by rules: rounds over all cases for some seconds, after one that does not count."""
    Clock().time(make(), cases)
    clock, until = Clock(), time.perf_counter() + seconds
    while not clock.seconds or time.perf_counter() < until:
        clock.time(make(), cases)
    return clock.cost(name, {"cases": where, "candidates": len(cases)})


def execution_costs(one: Execution, seconds: float) -> Iterator[VerdictCost]:
    """The cost of verdicts that execute, and of finding one that was executed before; the expert's side is cached."""
    fresh, stored = Clock(), Clock()
    verifier = one.verifier()
    Clock().time(verifier, one.cases(0))  # the expert's side of each candidate
    until, turn = time.perf_counter() + seconds, 1
    while not fresh.seconds or time.perf_counter() < until:
        fresh.time(verifier, one.cases(turn))
        turn += 1
    while len(stored.seconds) < 2000:
        stored.time(verifier, one.cases(turn - 1))
    setting = {"cases": "embedded", "candidates": len(one.cases(0))}
    yield fresh.cost(f"{one.name}-executed", setting)
    yield stored.cost(f"{one.name}-cached", setting)


def verdict_costs(rows: Sequence[Path], seconds: float, scratch: Path, say: Say) -> Iterator[VerdictCost]:
    """All of it.

    Args:
        rows: files with turns of one's own.
        seconds: of each verifier.
        scratch: a folder for workspaces and caches.
        say: hears of the progress.
    """
    own = cases_in(rows)
    for domain in GRADERS:
        for where, cases in (("embedded", cases_of(domain)), ("rows", own.get(domain, []))):
            if cases:
                say(f"{domain}: {len(cases)} candidates ({where})")
                yield rule_cost(domain, partial(get_verifier, "functional"), cases, where, seconds)
    for domain in sorted(own.keys() - GRADERS.keys()):
        yield VerdictCost(domain, {"cases": "rows"}, skipped="there is no verifier for this domain")
    for kind in ("exact", "nemo-gym"):
        say(f"{kind}: the tool candidates")
        yield rule_cost(kind, partial(get_verifier, kind), cases_of("tool"), "embedded", seconds)
    for one in executions(scratch):
        say(f"{one.name}: executing")
        if one.obstacle:
            yield VerdictCost(f"{one.name}-executed", {"cases": "embedded"}, skipped=one.obstacle)
        else:
            yield from execution_costs(one, seconds)
