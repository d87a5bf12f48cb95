"""The embedded engine: transformers in this process, on branches (see branches.py).

Prompts that are prefixes of one another (the turns of one trajectory) share one stem, but for a few ids at the end that
a template renders otherwise in later turns; what all stems begin with (the system prompt) is computed once. Samples of
one state are one line of the batch until they differ, and lines leave it when they end, by a fixed plan that depends on
the samples only, so that the same requests give the same bits on the same machine with the same number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
import transformers

from pivotrl_core import attention, lanes, seeding
from pivotrl_core.engines.adapters import lanes_for
from pivotrl_core.engines.branched_model import BranchedModel
from pivotrl_core.engines.decoding import Continuations, Decoder
from pivotrl_core.engines.model import context_tokens
from pivotrl_core.engines.protocol import (
    ChatSession,
    More,
    Request,
    Sample,
    SamplingConfig,
    TokenCount,
    check_room,
)
from pivotrl_core.engines.rows import new_row
from pivotrl_core.engines.session import EpisodeSession
from pivotrl_core.engines.stems import common_prefix, plan_stems
from pivotrl_core.files import code_digest
from pivotrl_core.lanes import ONE_LANE, Lanes
from pivotrl_core.types import content_id

OWN_CODE = (
    "transformers_engine",
    "batching",
    "branched_model",
    "branches",
    "adapters",
    "decoding",
    "model",
    "packing",
    "protocol",
    "rows",
    "sharing",
    "stems",
)
CODE = (
    *(Path(__file__).with_name(f"{name}.py") for name in OWN_CODE),
    *(Path(str(one.__file__)) for one in (attention, lanes, seeding)),
)


class TransformersEngine(BranchedModel):
    """Samples from a policy that is loaded in this process.

    Args:
        model: a causal language model, or a PEFT model around one.
        stop_ids: ids that end a turn; the one that was sampled is part of the sample.
        max_rows: rows decoded at once, and `lanes`, which cut requests further. Both are part of the sampling plan:
            other values may change samples at near-ties.
    """

    code: tuple[Path, ...] = CODE  # what decides on samples

    def __init__(self, model: Any, stop_ids: Sequence[int], max_rows: int = 2048, lanes: Lanes = ONE_LANE) -> None:
        super().__init__(model, stop_ids)
        self.max_rows = max_rows
        self.lanes = lanes_for(self.model, lanes)
        versions = [code_digest(*self.code), torch.__version__, transformers.__version__]
        self.version = content_id([*versions, max_rows, lanes.parts])
        self.context_tokens = context_tokens(self.model.config)

    def sample(
        self, requests: Sequence[Request], sampling: SamplingConfig, more: More | None = None
    ) -> list[list[Sample]]:
        """One list per request, in order, with one sample per seed, or for as many seeds as `more` asks, in order.

        Raises:
            ConfigError: a state and its continuation are longer than what the model was made for.
        """
        longest = max((len(request.prompt_ids) for request in requests), default=0)
        check_room(self.context_tokens, longest, sampling.max_tokens)
        results: list[list[Sample]] = [[] for _ in requests]
        first = [len(request.seeds) if more is None else more(at, ()) for at, request in enumerate(requests)]
        first = [min(count, len(request.seeds)) for count, request in zip(first, requests, strict=True)]
        # By all seeds, however few are asked for: so states are computed in the same batches, to the bit.
        chunks = list(_chunks(plan_stems(requests), requests, self.max_rows, self.lanes.parts))
        with self.sampling():
            for found, count in self.lanes.map(partial(self._lane, requests, sampling, first, more), chunks):
                self.count.add(count)
                for owner, samples in found.items():
                    results[owner] = samples
        return results

    def _lane(
        self, requests: Sequence[Request], sampling: SamplingConfig, first: Sequence[int], more: More | None,
        chunk: list[tuple[int, list[int]]],
    ) -> tuple[dict[int, list[Sample]], TokenCount]:  # fmt: skip
        """The samples of one chunk, whose states are computed once."""
        engine = self.beside()
        states: dict[int, Continuations] = {}
        for stem, (longest, members) in enumerate(chunk):
            for at in members:
                prompt = requests[at].prompt_ids
                shared = min(common_prefix([prompt, requests[longest].prompt_ids]), len(prompt) - 1)
                rows = [new_row(seed, sampling) for seed in requests[at].seeds]
                asks = None if more is None else partial(more, at)
                states[at] = Continuations(stem, shared, prompt[shared:], rows, first[at], asks)
        if any(not state.over for state in states.values()):
            with engine.sampling():
                shortest = min(state.visible for state in states.values())
                stems = engine.prefill([requests[longest].prompt_ids[:-1] for longest, _ in chunk], shortest)
                Decoder(engine, list(states.values()), stems).write()
        return {at: state.samples() for at, state in states.items()}, engine.count

    def beside(self) -> Self:
        """This engine for one lane, inside this one's `sampling()`: the same model, one lane, a count of its own."""
        engine = copy(self)
        engine.count = TokenCount()
        engine.lanes = ONE_LANE
        return engine

    def session(self, opening: Sequence[int]) -> ChatSession:
        """A session whose conversations all begin with the ids of `opening`."""
        return EpisodeSession(self, opening)


def _chunks(
    stems: list[tuple[int, list[int]]], requests: Sequence[Request], max_rows: int, parts: int
) -> Iterator[list[tuple[int, list[int]]]]:
    """Whole stems, in order, up to `max_rows` rows at once (a single larger stem goes alone), in `parts` or more."""
    sizes = [sum(len(requests[i].seeds) for i in members) for _, members in stems]
    total = sum(sizes)
    share = total / (parts * -(-total // (parts * max_rows))) if total else 1.0  # what each of even chunks would have
    chunk: list[tuple[int, list[int]]] = []
    rows = passed = place = 0
    for stem, size in zip(stems, sizes, strict=True):
        belongs = int((passed + size / 2) / share)
        if chunk and (belongs > place or rows + size > max_rows):
            yield chunk
            chunk, rows = [], 0
        place = belongs
        passed += size
        chunk.append(stem)
        rows += size
    if chunk:
        yield chunk
