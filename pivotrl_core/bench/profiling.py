"""`pivotrl bench profile`: K samples at the turns of long conversations, beside transformers' `generate` and vLLM.

And the whole of the embedded domain's profile, alone: what a candidate costs, and which share each part takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pivotrl_core.bench.conversations import DOMAIN, desk_candidates, long_trajectories, turn_requests
from pivotrl_core.bench.desk_profile import DeskProfile, ProfilePlan
from pivotrl_core.bench.measuring import Answer, Bench, Side, measure
from pivotrl_core.bench.records import Comparison, compare, skip
from pivotrl_core.bench.sampling import EngineSampling, GenerateSampling
from pivotrl_core.bench.vllm_sampling import VLLMSampling, missing_vllm
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Request, SamplingConfig
from pivotrl_core.errors import MeasurementError

ROOM = 64  # tokens that vLLM's context is longer than what it is asked for


@dataclass(frozen=True, slots=True)
class ProfileBench(Bench):
    """What is measured.

    Attributes:
        tool_format: how the model's tool calls are written.
        samples: K, and `max_tokens`: of each, no fewer and no more where sides are compared.
        count: conversations of about `tokens` tokens, profiled at `turns` of their turns each (0: at all).
        source: file or folder of conversations of one's own.
        candidates: of the embedded domain's own profile.
        checkout: where the environment of vLLM is looked for; None: nowhere.
        rounds: measured runs of each side.
    """

    tool_format: str = "compact"
    samples: int = 8
    max_tokens: int = 40
    temperature: float = 1.0
    count: int = 1
    tokens: int = 2000
    turns: int = 12
    source: Path | None = None
    candidates: int = 24
    checkout: Path | None = None
    rounds: int = 5

    def run(self) -> Iterator[Comparison]:
        """All comparisons, and our own profile."""
        yield self.against_generate()
        yield self.against_vllm()
        yield self.own()

    def against_generate(self) -> Comparison:
        """Ours against generating turn by turn."""
        requests = self._requests()
        theirs = Side("transformers", GenerateSampling, (self.folder, self.compute, self._sampling))
        return self._against(theirs, requests)

    def against_vllm(self) -> Comparison:
        """Ours against vLLM with prefix caching, in time alone."""
        reason = missing_vllm(self.checkout) if self.checkout is not None else "it was not looked for"
        if reason:
            return skip("profile", "vllm", self._setting() | {"group_size": self.samples}, reason)
        requests = self._requests()
        context = max(len(one.prompt_ids) for one in requests) + self.max_tokens + ROOM
        theirs = Side("vllm", VLLMSampling, (self.folder, self.compute, self._sampling, self.checkout, context))
        return replace(self._against(theirs, requests), cpu_ratio=None, memory_ratio=None)

    @property
    def _sampling(self) -> SamplingConfig:
        return SamplingConfig(self.temperature, self.max_tokens)

    def _against(self, theirs: Side, requests: list[Request]) -> Comparison:
        self.say(f"{theirs.name}: sampling {self.samples} x {self.max_tokens} tokens at each of {len(requests)} states")
        sides = [Side("ours", EngineSampling, (self.folder, self.compute, self._sampling)), theirs]
        measured = measure(sides, requests, self.rounds, self.machine, check_tokens, warm_up=requests[:2])
        check_tokens({name: one.answer for name, one in measured.items()})
        setting = self._setting() | {
            "group_size": self.samples,
            "state_tokens": round(sum(len(one.prompt_ids) for one in requests) / len(requests)),
            "turns": len(requests), "trajectories": self.count,
            "trajectory_tokens": max(len(one.prompt_ids) for one in requests),
            "generated_tokens": measured["ours"].answer["generated"],
        }  # fmt: skip
        return compare("profile", theirs.name, setting, measured["ours"], measured[theirs.name])

    def own(self) -> Comparison:
        """The embedded domain's profile: rendering, sampling, verifying, deciding and storing."""
        candidates = desk_candidates(self.candidates)
        self.say(f"profiling {len(candidates)} candidates of the {DOMAIN}")
        plan = ProfilePlan(self.samples, self._sampling, self.tool_format)
        side = Side("ours", DeskProfile, (self.folder, self.compute, plan))
        measured = measure([side], candidates, self.rounds, self.machine)["ours"]
        setting = self._setting() | {
            "group_size": self.samples, "candidates": len(candidates),
            "generated_tokens": measured.answer["generated"],
        }  # fmt: skip
        each = 1000 * measured.cost / len(candidates)
        told = Comparison("profile", None, setting, shares=measured.answer["shares"], ours=measured)
        on_gpu = measured.cpu is None
        return replace(told, wall_ms_per_candidate=each) if on_gpu else replace(told, ms_per_candidate=each)

    def _requests(self) -> list[Request]:
        from transformers import AutoTokenizer

        renderer = ChatRenderer(AutoTokenizer.from_pretrained(self.folder, local_files_only=True), self.tool_format)
        trajectories = long_trajectories(renderer, self.count, self.tokens, self.source)
        return turn_requests(renderer, trajectories, self.samples, self.turns)

    def _setting(self) -> dict[str, Any]:
        return {
            "action_tokens": self.max_tokens, "temperature": self.temperature, **self.computed_on,
        }  # fmt: skip


def check_tokens(answers: Mapping[str, Answer]) -> None:
    """Raise MeasurementError where one side has written more tokens than another."""
    written = {name: answer["generated"] for name, answer in answers.items()}
    if len(set(written.values())) > 1:
        raise MeasurementError(f"the sides did not write equally many tokens, so nothing is compared: {written}")
