"""What a judge reads and writes is counted: in profiles, in training and in the cost of an arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pivotrl_core.config.arms import GRPOTrain, OptimiserConfig
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.model import load_policy
from pivotrl_core.engines.protocol import SamplingConfig
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.evaluation.costs import cost_by_arm
from pivotrl_core.pivots.profiling import Profiler
from pivotrl_core.types import Action, Candidate, Verdict
from pivotrl_core.verifiers.judged import judge_tokens
from tests.tiny_models import COMPUTE
from tests.toy_training import Run, toy_candidates

TOKENS, SAMPLES = 10, 4


@dataclass
class PricedVerifier:
    """Verdicts of a judge that reads and writes `TOKENS` for each; `seen` are the actions that it was asked about."""

    name: str = "priced"
    version: str = "1"
    seen: list[str] = field(default_factory=list)

    def verify(self, candidate: Candidate, action: Action) -> Verdict:
        self.seen.append(action.text)
        return Verdict(float(len(self.seen) % 2), "judged_same", {"judged": True, "judge_tokens": TOKENS})


def test_verdicts_without_a_judge_cost_none() -> None:
    free = Verdict(1.0, "accepted", {"judged": False})
    assert judge_tokens({"a": free, "b": Verdict(0.0, "judged_different", {"judge_tokens": 7})}) == 7


def test_a_profile_counts_each_distinct_action_once_and_no_more_when_it_is_found_stored(
    tiny_llama: Path, tmp_path: Path
) -> None:
    policy = load_policy(tiny_llama, tiny_llama, COMPUTE)
    renderer = ChatRenderer(policy.tokenizer, "compact")
    engine = TransformersEngine(policy.model, [renderer.eos_id])
    sampling = SamplingConfig(1.0, 1)
    profiler = Profiler(engine, renderer, PricedVerifier(), sampling, SAMPLES * 8, 0, "pi-0", tmp_path, 2)
    groups, cost = profiler.profile(toy_candidates(), lambda *_: None)
    distinct = sum(len({rollout.ids for rollout in group}) for group in groups)
    assert distinct < sum(map(len, groups))
    assert cost.tokens.judge == TOKENS * distinct
    _, again = profiler.profile(toy_candidates(), lambda *_: None)
    assert (again.computed_blocks, again.tokens) == (0, cost.tokens)


@pytest.mark.usefixtures("deterministic")
def test_training_counts_what_its_groups_asked(tiny_llama: Path, tmp_path: Path) -> None:
    settings = GRPOTrain(
        method="grpo", steps=2, prompts_per_step=3, group_size=SAMPLES, max_tokens=4,
        optimiser=OptimiserConfig(learning_rate=0.001),
    )  # fmt: skip
    verifier = PricedVerifier()
    counters = Run(tiny_llama, tmp_path / "out", tmp_path / "scratch").policy_gradient(settings, verifier)
    assert len(verifier.seen) == 2 * 3 * SAMPLES
    groups = [set(verifier.seen[first : first + SAMPLES]) for first in range(0, len(verifier.seen), SAMPLES)]
    assert counters["judge_tokens"] == TOKENS * sum(map(len, groups))


def test_an_arm_pays_for_the_judge_of_its_profile_and_of_its_training() -> None:
    trains = {"pivotrl-0": {"arm": "pivotrl", "metrics": {"cost/judge_tokens": 30}}}
    selects = {"pivotrl": {"reads_profile": True}}
    profiles = {"base": {"metrics": {"cost/judge_tokens": 12}}}
    cost = cost_by_arm(["base", "pivotrl"], selects, trains, profiles, {})
    assert cost["pivotrl"]["judge_tokens"] == 42
    assert cost["base"].get("judge_tokens", 0) == 0
