"""The embedded domain's profile as the stage does it, with a clock on each of its parts."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pivotrl_core.bench.chance import ChanceVerifier
from pivotrl_core.bench.conversations import DOMAIN
from pivotrl_core.bench.measuring import Answer
from pivotrl_core.bench.shapes import load_any
from pivotrl_core.bench.steps import touch
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import prepare_torch
from pivotrl_core.engines.protocol import More, Request, Sample, SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.environments.registry import get_expert_domain
from pivotrl_core.pivots.curtailment import Curtailment
from pivotrl_core.pivots.profile_record import ProfileRow, read_profile, write_profile
from pivotrl_core.pivots.profiling import Profiler, Rollout, distinct_successes
from pivotrl_core.pivots.selection import CountRule, Pivots, keeps
from pivotrl_core.types import Action, Candidate, Message, Tool, Verdict
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier

Result = TypeVar("Result")
BLOCK = 12  # trajectories, as in params.yaml
RULE: CountRule = Pivots(0.6)


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """How candidates are profiled, in blocks of so many trajectories.

    `curtailed`: no more samples than the rule needs; `by_chance`: see `chance.py`.
    """

    samples: int
    sampling: SamplingConfig
    tool_format: str = "compact"
    curtailed: bool = False
    by_chance: bool = False
    block: int = BLOCK


class Clock:
    """Seconds by part, of the processor where nothing else is told. One part inside another counts for the inner alone.

    Args:
        now: tells the time. With a GPU it must be that of the wall: samples that have come are done there.
    """

    def __init__(self, now: Callable[[], float] = time.process_time) -> None:
        self._now = now
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    def time(self, part: str, work: Callable[[], Result]) -> Result:
        """The result of `work`, whose time goes to `part`."""
        self._pass()
        self._running.append(part)
        try:
            return work()
        finally:
            self._pass()
            self._running.pop()

    def shares(self) -> dict[str, float]:
        """Of each part, its share of all of them."""
        total = sum(self.seconds.values()) or 1.0
        return {part: seconds / total for part, seconds in sorted(self.seconds.items(), key=lambda one: -one[1])}

    def _pass(self) -> None:
        now = self._now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


class ClockedRenderer(ChatRenderer):
    """Renders states and parses actions on a clock."""

    clock: Clock

    def state_ids(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        return self.clock.time("rendering", lambda: super(ClockedRenderer, self).state_ids(messages, tools))

    def parse(self, ids: Sequence[int], tools: Sequence[Tool]) -> Action:
        return self.clock.time("verifying", lambda: super(ClockedRenderer, self).parse(ids, tools))


@dataclass(slots=True)
class ClockedVerifier:
    """Verifies on a clock."""

    inner: Verifier
    clock: Clock
    name: str
    version: str

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        return self.clock.time("verifying", lambda: self.inner.verify(candidate, action))


class DeskProfile:
    """Profiles candidates into an empty store, writes the profile, and decides by the paper's rule.

    One lane: with several, parts of different lanes would run at once, and no clock could tell them apart.
    """

    def __init__(self, folder: Path, compute: ComputeConfig, plan: ProfilePlan) -> None:
        prepare_torch(compute)
        policy = load_any(folder, compute)
        touch(policy.model)
        self.plan = plan
        self.now = time.process_time if compute.device == "cpu" else time.perf_counter
        self.tokenizer = policy.tokenizer
        self.engine = TransformersEngine(policy.model, [ChatRenderer(policy.tokenizer, plan.tool_format).eos_id])
        self.verifier: Verifier = get_verifier("functional", GraderSettings(rules=get_expert_domain(DOMAIN)))
        if plan.by_chance:
            self.verifier = ChanceVerifier()

    def load(self, task: list[Candidate]) -> None:
        self.task = task

    def run(self) -> None:
        # A new one, for it remembers what it has tokenised.
        self.renderer = ClockedRenderer(self.tokenizer, self.plan.tool_format)
        self.clock = self.renderer.clock = Clock(self.now)
        self.engine.count = type(self.engine.count)()
        store = Path(tempfile.mkdtemp(prefix="bench-profile-"))
        try:
            self.clock.time("storing", lambda: self._profile(store))
        finally:
            shutil.rmtree(store)

    def answer(self) -> Answer:
        count = self.engine.count
        return {"generated": count.generated, "samples": count.turns, "kept": self.kept, "shares": self.clock.shares()}

    def _profile(self, store: Path) -> None:
        plan = self.plan
        clocked = ClockedVerifier(self.verifier, self.clock, self.verifier.name, self.verifier.version)
        profiler = Profiler(
            self._engine(),
            self.renderer,
            clocked,
            sampling=plan.sampling,
            samples=plan.samples,
            seed=0,
            policy_digest="bench",
            store=store,
            block_trajectories=plan.block,
            curtailment=Curtailment({repr(RULE): keeps(RULE)}, plan.samples) if plan.curtailed else None,
        )
        groups, _ = profiler.profile(self.task, lambda _at, _of, _rollouts: None)
        rows = [self._row(*pair) for pair in zip(self.task, groups, strict=True)]
        write_profile(store / "profile.parquet", rows)
        frame = read_profile(store / "profile.parquet")
        self.kept = [one.kept for one in self.clock.time("deciding", lambda: RULE.decide(frame))]

    def _row(self, candidate: Candidate, group: Sequence[Rollout]) -> ProfileRow:
        verdicts = tuple(rollout.verdict for rollout in group)
        return ProfileRow(candidate, verdicts, 1.0, distinct_successes(group, 1.0), self.plan.samples)

    def _engine(self) -> ClockedEngine:
        return ClockedEngine(self.engine, self.clock)


class ClockedEngine:
    """Samples on a clock."""

    def __init__(self, inner: TransformersEngine, clock: Clock) -> None:
        self.inner = inner
        self.clock = clock
        self.count = inner.count
        self.version = inner.version

    def sample(
        self, requests: Sequence[Request], sampling: SamplingConfig, more: More | None = None
    ) -> list[list[Sample]]:
        """As the engine inside does it."""
        return self.clock.time("sampling", lambda: self.inner.sample(requests, sampling, more))
