"""Sampling from any causal language model by transformers' own `generate`: exact, and nothing is shared (slower).

For models whose states cannot be shared (`sharing.py`): sliding windows, recurrent layers, changed scores. Each state
is computed once for every sample. A token is chosen by the same rule and the same random numbers as on branches, so
that both engines give a model that both can sample the same samples, but for near-ties in rounding.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor

from pivotrl_core.engines.adapters import inner_model, merged_adapters
from pivotrl_core.engines.protocol import More, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.engines.rows import Row, new_row
from pivotrl_core.engines.sharing import logits_obstacle, sharing_obstacle
from pivotrl_core.engines.transformers_engine import CODE, TransformersEngine
from pivotrl_core.lanes import ONE_LANE, Lanes

log = logging.getLogger(__name__)


def embedded_engine(model: Any, stop_ids: Sequence[int], lanes: Lanes = ONE_LANE) -> TransformersEngine:
    """The engine in this process: on branches where that is exact, plain elsewhere, with a line in the log."""
    inner = inner_model(model)
    obstacle = sharing_obstacle(inner) or logits_obstacle(inner)
    if not obstacle:
        return TransformersEngine(model, stop_ids, lanes=lanes)
    log.warning("samples are drawn by transformers' generate, and none shares its state (slower): %s", obstacle)
    return PlainEngine(model, stop_ids, lanes=lanes)


class PlainEngine(TransformersEngine):
    """Implements `Engine` by `generate`. One thing is computed at a time: `generate` changes the model as it runs."""

    code = (*CODE, Path(__file__))

    def __init__(self, model: Any, stop_ids: Sequence[int], max_rows: int = 2048, lanes: Lanes = ONE_LANE) -> None:
        super().__init__(model, stop_ids, max_rows, Lanes(lanes.parts, 1))

    def check_model(self) -> None:
        """Any causal language model will do."""

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """How the model computes while this engine samples: by itself, without habits of its own in generating."""
        before = self.model.generation_config
        self.model.generation_config = GenerationConfig()
        try:
            with merged_adapters(self.model), torch.inference_mode():
                yield
        finally:
            self.model.generation_config = before

    def session(self, opening: Sequence[int]) -> PlainSession:
        """A session whose conversations all begin with the ids of `opening`."""
        return PlainSession(self, opening)

    def _lane(
        self, requests: Sequence[Request], sampling: SamplingConfig, first: Sequence[int], more: More | None,
        chunk: list[tuple[int, list[int]]],
    ) -> tuple[dict[int, list[Sample]], TokenCount]:  # fmt: skip
        """The samples of one chunk, state by state, in waves: those of one state in a batch, which needs no padding."""
        engine = self.beside()
        found: dict[int, list[Sample]] = {}
        with engine.sampling():
            for at in (member for _, members in chunk for member in members):
                rows = [new_row(seed, sampling) for seed in requests[at].seeds]
                count, wanted = 0, first[at]
                while wanted and count < len(rows):
                    wave = rows[count : count + wanted]
                    for start in range(0, len(wave), self.max_rows):
                        engine._generate(requests[at].prompt_ids, wave[start : start + self.max_rows], sampling)
                    count += len(wave)
                    ask = more is not None and count < len(rows)
                    wanted = more(at, [row.sample() for row in rows[:count]]) if more is not None and ask else 0
                found[at] = [row.sample() for row in rows[:count]]
        return found, engine.count

    def _generate(self, prompt: Sequence[int], rows: Sequence[Row], sampling: SamplingConfig) -> None:
        ids_RT = self.tensor([list(prompt)]).expand(len(rows), -1)
        self.count.prefilled += len(rows) * (len(prompt) - 1)
        self.count.turns += len(rows)
        ends = sorted(self.stop_ids)
        settings = GenerationConfig(
            do_sample=False, num_beams=1, max_new_tokens=sampling.max_tokens, eos_token_id=ends or None,
            pad_token_id=ends[0] if ends else 0,
        )  # fmt: skip
        self.model.generate(
            ids_RT, attention_mask=torch.ones_like(ids_RT), generation_config=settings,
            logits_processor=[_Chooser(self, rows)],
            synced_gpus=False,  # of a training on several ranks, each of which samples by itself
        )  # fmt: skip

    def next_ids(self, rows: Sequence[Row], logits_RV: Tensor) -> list[int]:
        """Choose the next id of each row that goes on, and record it; each row's last id."""
        going = [at for at, row in enumerate(rows) if not row.done]
        temperatures = [row.temperature or 1.0 for row in rows]
        self._choose([rows[at] for at in going], going, logits_RV, temperatures)
        self.count.generated += len(going)
        return [row.ids[-1] for row in rows]


class _Chooser(LogitsProcessor):  # type: ignore[misc]
    """Leaves of each row's logits the one id that the engine chose, which `generate` then takes as the greatest."""

    def __init__(self, engine: PlainEngine, rows: Sequence[Row]) -> None:
        self.engine = engine
        self.rows = rows

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        del input_ids
        chosen_R1 = self.engine.tensor(self.engine.next_ids(self.rows, scores))[:, None]
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen_R1, 0.0)


class PlainSession:
    """Implements `ChatSession` on the plain engine: each turn is sampled from its whole context.

    Args:
        engine: where tokens come from.
        opening: ids that every conversation begins with.
    """

    def __init__(self, engine: PlainEngine, opening: Sequence[int]) -> None:
        self.engine = engine
        self.opening = tuple(opening)
        self.contexts: dict[int, tuple[int, ...]] = {}
        self.waiting: dict[int, tuple[SamplingConfig, int]] = {}

    def say(self, name: int, ids: Sequence[int], sampling: SamplingConfig, seed: int) -> None:
        """Put ids (at least one) behind conversation `name`, new or known, and let its next turn be sampled."""
        self.contexts[name] = (*self.contexts.get(name, self.opening), *ids)
        self.waiting[name] = (sampling, seed)

    def end(self, name: int) -> None:
        """Conversation `name` is over."""
        del self.contexts[name]

    def advance(self) -> list[tuple[int, Sample]]:
        """The next turn of whoever has waited longest; empty where nothing was said that has no turn yet."""
        for name, (sampling, seed) in self.waiting.items():
            del self.waiting[name]
            ((sample,),) = self.engine.sample([Request(str(name), self.contexts[name], (seed,))], sampling)
            self.contexts[name] = (*self.contexts[name], *sample.ids)
            return [(name, sample)]
        return []
