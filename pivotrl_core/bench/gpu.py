"""`pivotrl bench gpu`: all benchmarks on one GPU, in a quarter of an hour, on models of random weights.

First comes a check that the fast forms are right there (`checking.py`). The parts after it have a share of the time
each; one that ends early leaves the rest to the next, one that does not end in time is ended, and what then cannot
begin is skipped. All of it is in the journal: so is what failed, and what a kill has left.

Nothing here was measured on a GPU yet: how long parts take there is a guess.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path
from typing import Any

from pivotrl_core.bench.checking import CheckTask, DeviceCheck
from pivotrl_core.bench.curtailing import CurtailBench
from pivotrl_core.bench.iterating import IterateBench
from pivotrl_core.bench.iterations import IterationPlan
from pivotrl_core.bench.journal import Journal
from pivotrl_core.bench.measuring import Machine, Say, Side
from pivotrl_core.bench.profiling import ProfileBench
from pivotrl_core.bench.records import Comparison
from pivotrl_core.bench.shapes import SHAPES
from pivotrl_core.bench.steps import draw_group
from pivotrl_core.bench.training import TrainBench
from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import OutOfTimeError, PivotRLError
from pivotrl_core.files import read_json

LEAST = 10.0  # seconds: a part with less has no time to load a model
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "vllm")

Record = dict[str, Any]
Run = Callable[["Ground"], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a part runs on.

    Attributes:
        folders: of the models, by their shapes.
        compute: how all sides compute.
        machine: how they are run, and until when.
        say: hears of the progress.
        checkout: where the environment of vLLM is looked for; None: nowhere.
    """

    folders: dict[str, Path]
    compute: ComputeConfig
    machine: Machine
    say: Say
    checkout: Path | None = None

    def given(self, shape: str) -> Record:
        """What every benchmark is given."""
        return {
            "folder": self.folders[shape], "compute": self.compute, "machine": self.machine, "say": self.say,
            "model": f"{shape} (random)",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its name, its share of the time, and what it does."""

    name: str
    share: float
    run: Run


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of all parts. The defaults are those on a GPU.

    Attributes:
        small, middle, large: shapes. Training needs ten times the large one's weights: that one only samples.
        group, state, action: of the step that is compared with TRL; `groups` and `states`: of the curve.
        samples, max_tokens: K, and tokens of each sample.
        tokens, turns: of the conversation that is sampled at; `large_turns`: by the large model.
        candidates: of the embedded domain, in profile, curtail and iterate.
        rounds: of each side, where there is time.
        row_tokens: of a training row in an iteration.
        search, padded: micro-batches of TRL's and of the padded form's; `padded_tokens`: of one on the curve.
        check: actions, tokens of the state and of each action, and tokens of each sample.
        iteration: what one iteration does.
    """

    small: str = "qwen2.5-0.5b"
    middle: str = "qwen2.5-1.5b"
    large: str = "qwen2.5-7b"
    group: int = 16
    state: int = 1024
    action: int = 64
    groups: tuple[int, ...] = (8, 16, 32)
    states: tuple[int, ...] = (1024, 4096)
    samples: int = 8
    max_tokens: int = 40
    tokens: int = 2000
    turns: int = 12
    large_turns: int = 6
    candidates: int = 16
    rounds: int = 3
    row_tokens: int = 16_384
    search: tuple[int, ...] = (8, 16)
    padded: tuple[int, ...] = (8,)
    padded_tokens: int = 16_384
    check: tuple[int, int, int, int] = (4, 256, 32, 24)
    iteration: IterationPlan = field(default_factory=IterationPlan)


DRY = Sizes(
    small="tiny", middle="tiny", large="tiny", group=4, state=48, action=6, groups=(2, 4), states=(24, 48), samples=2,
    max_tokens=4, tokens=600, turns=2, large_turns=1, candidates=2, rounds=1, search=(2, 4), padded=(2,),
    padded_tokens=128, check=(4, 40, 6, 6),
    iteration=IterationPlan(samples=2, group=2, prompts=1, steps=1, max_tokens=4),
)  # fmt: skip


def plan(sizes: Sizes) -> list[Part]:
    """All parts in their order: what matters most comes first. Shares are seconds of a quarter of an hour."""
    return [
        Part("check", 70, lambda ground: check(ground, sizes)),
        Part("curve", 100, lambda ground: _told(_train(ground, sizes, sizes.small).curve(sizes.groups, sizes.states))),
        Part("profile", 100, lambda ground: _told(_own_profile(_profile(ground, sizes, sizes.small)))),
        Part("train", 140, lambda ground: _told(_train(ground, sizes, sizes.small).step())),
        Part("iterate", 110, lambda ground: _told(_iterate(ground, sizes).run())),
        Part("curtail", 60, lambda ground: _told([_curtail(ground, sizes).timed()])),
        Part("curve-middle", 80, lambda ground: _told(_middle_curve(ground, sizes))),
        Part("profile-large", 110, lambda ground: _told([_large_profile(ground, sizes).against_generate()])),
        Part("vllm", 120, lambda ground: _told([_profile(ground, sizes, sizes.small).against_vllm()])),
    ]


def run_parts(parts: Sequence[Part], ground: Ground, journal: Journal, seconds: float) -> list[str]:
    """Run parts one after another within so many seconds; the names of those that did not end well.

    Args:
        parts: in their order.
        ground: what they run on.
        journal: hears of all.
        seconds: of all parts together.
    """
    begun = time.monotonic()
    whole = sum(part.share for part in parts)
    ends = [begun + seconds * share / whole for share in accumulate(part.share for part in parts)]
    failed = []
    for part, end in zip(parts, ends, strict=True):
        left = end - time.monotonic()
        if left < min(LEAST, seconds * part.share / whole):
            journal.record({"part": part.name, "skipped": f"{max(left, 0.0):.0f} s are left, which is too little"})
            failed.append(part.name)
            continue
        journal.record({"part": part.name, "event": "begun", "seconds": round(left, 1)})
        if not _run_part(part, replace(ground, machine=replace(ground.machine, until=end)), journal):
            failed.append(part.name)
        journal.record({"part": part.name, "event": "ended"})
    return failed


def _run_part(part: Part, ground: Ground, journal: Journal) -> bool:
    """Whether it ended well. Why it did not is in the journal."""
    wrong: list[str] = []
    try:
        for record in part.run(ground):
            journal.record({"part": part.name, **record})
            wrong += record.get("wrong", [])
    except OutOfTimeError as error:
        kind, reason = "skipped", str(error)
    except PivotRLError as error:
        kind, reason = "failed", str(error)
    except Exception:  # noqa: BLE001 - a boundary: what is wrong with one part must not take the others' time away
        kind, reason = "failed", traceback.format_exc()
    else:
        return not wrong
    journal.record({"part": part.name, kind: reason})
    journal.say(f"{part.name}: {kind}: {reason}")
    return False


def setting_out(ground: Ground, parts: Sequence[Part], seconds: float) -> Record:
    """The first record: what is going to be measured, and with what."""
    return {
        "event": "started", "device": ground.compute.device, "seconds": seconds,
        "parts": [part.name for part in parts], "versions": {name: _version(name) for name in PACKAGES},
        "parameters": {shape: SHAPES[shape].parameters for shape in ground.folders},
    }  # fmt: skip


def check(ground: Ground, sizes: Sizes) -> Iterator[Record]:
    """Whether ours is right on this device, in both dtypes."""
    group, state, action, tokens = sizes.check
    folder = ground.folders[sizes.small]
    task = CheckTask(draw_group(group, state, action, int(read_json(folder / "config.json")["vocab_size"])), tokens)
    for dtype in ("float32", "bfloat16"):
        compute = ground.compute.model_copy(update={"dtype": dtype})
        with ground.machine.start(Side("check", DeviceCheck, (folder, compute))) as worker:
            worker.load(task)
            answer = worker.run().answer
        yield {"bench": "check", "setting": ground.given(sizes.small)["model"], "dtype": dtype, **answer}


def _told(comparisons: Iterable[Comparison]) -> Iterator[Record]:
    for one in comparisons:
        yield {**json.loads(one.line()), **one.amounts()}


def _train(ground: Ground, sizes: Sizes, shape: str) -> TrainBench:
    return TrainBench(
        **ground.given(shape), group=sizes.group, state=sizes.state, action=sizes.action, batch_group=0,
        rounds=sizes.rounds, search=sizes.search, checkpointing=(False,), padded=sizes.padded,
        padded_tokens=sizes.padded_tokens,
    )  # fmt: skip


def _middle_curve(ground: Ground, sizes: Sizes) -> Iterator[Comparison]:
    return _train(ground, sizes, sizes.middle).curve([sizes.group], sizes.states)


def _profile(ground: Ground, sizes: Sizes, shape: str) -> ProfileBench:
    return ProfileBench(
        **ground.given(shape), samples=sizes.samples, max_tokens=sizes.max_tokens, tokens=sizes.tokens,
        turns=sizes.turns, candidates=sizes.candidates, checkout=ground.checkout, rounds=sizes.rounds,
    )  # fmt: skip


def _own_profile(bench: ProfileBench) -> Iterator[Comparison]:
    yield bench.against_generate()
    yield bench.own()


def _large_profile(ground: Ground, sizes: Sizes) -> ProfileBench:
    return replace(_profile(ground, sizes, sizes.large), turns=sizes.large_turns)


def _iterate(ground: Ground, sizes: Sizes) -> IterateBench:
    iteration = sizes.iteration
    return IterateBench(
        **ground.given(sizes.small), plan=iteration, candidates=sizes.candidates, micro_batch=iteration.group,
        rounds=sizes.rounds,
    )  # fmt: skip


def _curtail(ground: Ground, sizes: Sizes) -> CurtailBench:
    return CurtailBench(
        **ground.given(sizes.small), samples=sizes.samples, max_tokens=sizes.max_tokens, candidates=sizes.candidates,
        by_chance=True, rounds=sizes.rounds,
    )  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
