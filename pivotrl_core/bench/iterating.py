"""`pivotrl bench iterate`: a whole iteration by ours, beside the same through public tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pivotrl_core.bench.conversations import desk_candidates
from pivotrl_core.bench.iterations import IterationPlan, OurIteration, PublicIteration
from pivotrl_core.bench.measuring import Answer, Bench, Side, measure
from pivotrl_core.bench.records import Comparison, compare, skip
from pivotrl_core.bench.trl_step import TrlSetting, missing_trl
from pivotrl_core.errors import MeasurementError


@dataclass(frozen=True, slots=True)
class IterateBench(Bench):
    """What is measured.

    Attributes:
        plan: sizes of the iteration.
        candidates: of the embedded domain, that are profiled.
        micro_batch: TRL's; see what `pivotrl bench train` finds to be its fastest.
        rounds: measured runs of each side; the warm-up has two candidates.
    """

    plan: IterationPlan = field(default_factory=IterationPlan)
    candidates: int = 16
    micro_batch: int = 2
    rounds: int = 3

    def run(self) -> Iterator[Comparison]:
        """The one comparison."""
        plan = self.plan
        setting = {
            "group_size": plan.group, "samples": plan.samples, "action_tokens": plan.max_tokens,
            "candidates": self.candidates, "pivots_a_step": plan.prompts, "steps": plan.steps,
            "micro_batch": self.micro_batch, **self.computed_on,
        }  # fmt: skip
        if missing_trl():
            yield skip("iterate", "public-tools", setting, missing_trl())
            return
        trl = TrlSetting(self.micro_batch, checkpointing=False)
        sides = [
            Side("ours", OurIteration, (self.folder, self.compute, plan)),
            Side("public-tools", PublicIteration, (self.folder, self.compute, plan, trl)),
        ]
        candidates = desk_candidates(self.candidates)
        self.say(f"{self.rounds} iterations on {len(candidates)} candidates by each side, by turns")
        measured = measure(sides, candidates, self.rounds, self.machine, check_equal_work, warm_up=candidates[:2])
        check_equal_work({name: one.answer for name, one in measured.items()})
        yield compare("iterate", "public-tools", setting, measured["ours"], measured["public-tools"])


def check_equal_work(answers: Mapping[str, Answer]) -> None:
    """Raise MeasurementError where sides have written or kept different amounts."""
    ours, theirs = answers["ours"], answers["public-tools"]
    if dict(ours) != dict(theirs):
        raise MeasurementError(f"the sides did not do equal work, so nothing is compared: {answers}")
