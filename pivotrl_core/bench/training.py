"""`pivotrl bench train`: one GRPO step's forward and backward pass, and the curve over groups and states.

Ours beside TRL in the fastest of its exact settings, out of a search that is told, and beside a padded form of ours.
Nothing is told of sides whose losses or gradient norms differ by more than rounding (`steps.TOLERANCES`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import psutil

from pivotrl_core.bench.measuring import Answer, Bench, Measured, Reading, Runner, Side, measure
from pivotrl_core.bench.records import Comparison, compare, skip, token_limit
from pivotrl_core.bench.steps import GroupTask, PaddedStep, Scores, TreeStep, disagreement, draw_group, with_sampled
from pivotrl_core.bench.trl_step import TrlSetting, TrlStep, missing_trl
from pivotrl_core.errors import MeasurementError, SideKilledError
from pivotrl_core.files import read_json

OURS, OURS_LEAN = "ours", "ours, with activation checkpointing"
OUR_WAYS: dict[str, dict[str, Any]] = {OURS: {}, OURS_LEAN: {"ours": "activation checkpointing"}}
"""And what is said of each in `setting`."""


@dataclass(frozen=True, slots=True)
class TrainBench(Bench):
    """What is measured.

    Attributes:
        group: actions of the group, `state` and `action`: tokens of the state and of each action.
        batch_group: actions of the smaller group at which memory is compared with TRL in one batch; 0: at none.
        rounds: measured runs of each side.
        search: TRL's micro-batches that are tried, and `checkpointing`: with and without.
        padded: micro-batches of the padded form that are tried; `padded_tokens`: of one on the curve.
    """

    group: int = 16
    state: int = 1024
    action: int = 64
    batch_group: int = 8
    rounds: int = 5
    search: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    checkpointing: tuple[bool, ...] = (False, True)
    padded: tuple[int, ...] = (1, 2, 4)
    padded_tokens: int = 4096

    def step(self) -> Iterator[Comparison]:
        """Ours against TRL and against the padded form, at one point."""
        task = self.task(self.group, self.state)
        padded = self._fastest("padded", {micro: self._padded(micro) for micro in self.padded if micro <= self.group})
        sides = [self._ours(), self._padded(padded)]
        setting = self.setting(self.group, self.state)
        found, fastest, missing = {}, None, missing_trl()
        if not missing:
            found = self._search_trl()
            missing = "" if found else "no setting of TRL's fits in memory"
        if not missing:
            fastest = min(found, key=lambda one: found[one].cost / search_group(self.group, one.micro_batch))
            sides += [self._ours(lean=True)] if True in self.checkpointing else []
            sides.append(self._trl(self.group, fastest))
        self.say(f"measuring {', '.join(side.name for side in sides)}: {self.rounds} rounds after a warm-up")
        measured = measure(sides, task, self.rounds, self.machine, self._check)
        if fastest is None:
            yield skip("train", "trl", setting, missing)
        else:
            yield from self._beside_trl(measured, found, fastest)
        limit = token_limit(self.group, self.state, self.action)
        padded_setting = setting | {"micro_batch": padded}
        yield compare("train", "padded", padded_setting, measured[OURS], measured["padded"], limit)

    def curve(self, groups: Sequence[int], states: Sequence[int]) -> Iterator[Comparison]:
        """Ours against the padded form over sizes of the group and lengths of the state: one run a point."""
        points = sorted(((group, state) for group in groups for state in states), key=lambda one: one[0] * one[1])
        with ExitStack() as stack:
            scores = Side("scores", Scores, (self.folder, self.compute))
            sides = (scores, self._ours(), self._padded(self.padded_tokens, in_tokens=True))
            workers = [stack.enter_context(self.machine.start(side)) for side in sides]
            self._point(workers, *points[0])  # the warm-up
            for at, point in enumerate(points):
                try:
                    yield self._point(workers, *point)
                except SideKilledError as error:
                    for group, state in points[at:]:
                        yield skip("train", "padded", self.setting(group, state), str(error))
                    return

    def _point(self, workers: Sequence[Runner], group: int, state: int) -> Comparison:
        """One run of each side at one point of the curve."""
        scores, *others = workers
        task = draw_group(group, state, self.action, self._vocabulary())
        scores.load(task)
        task = with_sampled(task, scores.run().answer["logprobs"])
        readings: dict[str, Reading] = {}
        for worker in others:
            worker.load(task)
            if self.compute.device == "cuda":  # whose first run at a shape chooses kernels and asks for memory
                worker.run()
            readings[worker.name] = worker.run()
        self._check({name: one.answer for name, one in readings.items()})
        setting = self.setting(group, state) | {"padded_tokens": self.padded_tokens}
        sides = (Measured([readings[OURS]]), Measured([readings["padded"]]))
        # A process keeps what the point before has freed: its peak says nothing of this one.
        told = compare("train", "padded", setting, *sides, token_limit(group, state, self.action))
        return replace(told, memory_ratio=None)

    def setting(self, group: int, state: int) -> dict[str, Any]:
        """What is said of a point."""
        return {
            "group_size": group, "state_tokens": state, "action_tokens": self.action, **self.computed_on,
        }  # fmt: skip

    def task(self, group: int, state: int) -> GroupTask:
        """A group with the log-probabilities that a policy a little off gave its actions."""
        task = draw_group(group, state, self.action, self._vocabulary())
        with self.machine.start(Side("scores", Scores, (self.folder, self.compute))) as worker:
            worker.load(task)
            return with_sampled(task, worker.run().answer["logprobs"])

    def _beside_trl(
        self, measured: Mapping[str, Measured], found: Mapping[TrlSetting, Measured], fastest: TrlSetting
    ) -> Iterator[Comparison]:
        """Each way of ours beside TRL's fastest setting, and by memory beside its leanest; then TRL in one batch."""
        setting = self.setting(self.group, self.state)
        leanest = min(found, key=lambda one: found[one].memory)
        for name, how in OUR_WAYS.items():
            ours = measured.get(name)
            if ours is None:
                continue
            yield compare("train", "trl", setting | _named(fastest, "fastest") | how, ours, measured["trl"])
            memory_ratio = found[leanest].memory / max(1, ours.memory)
            yield Comparison("train", "trl", setting | _named(leanest, "leanest") | how, memory_ratio=memory_ratio)
        if self.batch_group:
            yield self._one_batch(found)

    def _search_trl(self) -> dict[TrlSetting, Measured]:
        """One run of every exact setting of TRL's that fits in memory: on two micro-batches, or the whole group."""
        found: dict[TrlSetting, Measured] = {}
        self.say("TRL's settings (its loss is always computed in chunks):")
        for checkpointing in self.checkpointing:
            before = 0
            for micro in self.search:
                if self.group % micro:
                    continue
                setting = TrlSetting(micro, checkpointing)
                if self.compute.device == "cpu" and 2 * before > psutil.virtual_memory().available:
                    self.say(f"  {setting}: not tried, would take about {2 * before / 2**30:.1f} GiB")
                    break
                group = search_group(self.group, micro)
                try:
                    found[setting] = self._try(self._trl(group, setting), group)
                except SideKilledError:
                    self.say(f"  {setting}: ended for want of memory")
                    break
                before = found[setting].memory
                self._say_found(str(setting), found[setting], group)
        return found

    def _fastest(self, name: str, sides: Mapping[int, Side]) -> int:
        """The micro-batch at which a side takes the least processor time a sequence, or the least time on a GPU."""
        if len(sides) == 1:
            return next(iter(sides))
        self.say(f"micro-batches of the {name} form:")
        costs = {}
        for micro, side in sides.items():
            group = search_group(self.group, micro)
            found = self._try(side, group)
            costs[micro] = found.cost / group
            self._say_found(f"micro-batch {micro}", found, group)
        return min(costs, key=lambda one: costs[one])

    def _try(self, side: Side, group: int) -> Measured:
        task, small = (self._unscored(group, state) for state in (self.state, min(64, self.state)))
        return measure([side], task, 1, self.machine, warm_up=small)[side.name]

    def _unscored(self, group: int, state: int) -> GroupTask:
        """A group whose log-probabilities at sampling are made up: what it costs does not depend on them."""
        task = draw_group(group, state, self.action, self._vocabulary())
        return with_sampled(task, [[-10.0] * self.action] * group)

    def _say_found(self, what: str, found: Measured, group: int) -> None:
        cpu = "" if found.cpu is None else f"{found.cpu / group:.3f} processor s and "
        self.say(
            f"  {what}: {cpu}{found.wall / group:.3f} s a sequence, {found.memory / 2**20:.0f} MiB above the model"
        )

    def _one_batch(self, found: Mapping[TrlSetting, Measured]) -> Comparison:
        """Memory beside TRL's with the whole of a smaller group at once."""
        group, whole = self.batch_group, TrlSetting(self.batch_group, checkpointing=False)
        setting = self.setting(group, self.state) | _named(whole, "one batch")
        if whole not in found:
            return skip("train", "trl", setting, "there is too little memory here for TRL in one batch")
        task, small = self.task(group, self.state), self.task(group, min(64, self.state))
        sides = [self._ours(), self._trl(group, whole)]
        measured = measure(sides, task, 1, self.machine, self._check, warm_up=small)
        return compare("train", "trl", setting, measured[OURS], measured["trl"])

    def _ours(self, lean: bool = False) -> Side:
        if not lean:
            return Side(OURS, TreeStep, (self.folder, self.compute))
        compute = self.compute.model_copy(update={"activation_checkpointing": True})
        return Side(OURS_LEAN, TreeStep, (self.folder, compute))

    def _padded(self, micro: int, in_tokens: bool = False) -> Side:
        return Side("padded", PaddedStep, (self.folder, self.compute, micro, in_tokens))

    def _trl(self, group: int, setting: TrlSetting) -> Side:
        return Side("trl", TrlStep, (self.folder, self.compute, group, setting))

    def _check(self, answers: Mapping[str, Answer]) -> None:
        told = disagreement(answers, self.compute.dtype)
        if told:
            raise MeasurementError(f"the sides do not compute the same, so nothing is compared: {told}")

    def _vocabulary(self) -> int:
        return int(read_json(self.folder / "config.json")["vocab_size"])


def search_group(group: int, micro_batch: int) -> int:
    """Sequences that a setting is tried on: two micro-batches, so that gradients add up, or the whole group."""
    return min(group, 2 * micro_batch)


def _named(setting: TrlSetting, chosen: str) -> dict[str, Any]:
    return {"micro_batch": setting.micro_batch, "checkpointing": setting.checkpointing, "chosen": chosen}
