"""A model that computes through branches (see branches.py): what an engine and its sessions write rows with.

Stems are read once, whatever goes on behind them is computed token by token, and a row's next id is chosen by inverse
transform with the row's own random number. Which rows stand in a batch when is for others to say: `decoding.py` for
continuations of states, `session.py` for conversations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pivotrl_core.engines.adapters import inner_model, merged_adapters
from pivotrl_core.engines.batching import batches_by_length
from pivotrl_core.engines.branches import (
    Attending,
    StemCache,
    StemPrefill,
    TailCache,
    branch_attention,
    plain_writes,
)
from pivotrl_core.engines.packing import packed_weights
from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.engines.rows import Row
from pivotrl_core.engines.sharing import backbone, check_shared, key_shape
from pivotrl_core.engines.stems import common_prefix

CACHED = 2**19  # numbers of a block of logits: 2 MiB in fp32, about what a CPU's core keeps at hand
AT_ONCE = 2**26  # the same on a GPU: 256 MiB, of which there are some five copies
PREFILLED = 2**15  # tokens, padding among them, that a GPU reads in one forward pass (a CPU's reads them all)


class BranchedModel:
    """Reads stems, computes what follows them and chooses ids; `count` is of all that it computed.

    Args:
        model: a causal language model, or a PEFT model around one.
        stop_ids: ids that end a turn; the one that was sampled is part of the sample.
    """

    def __init__(self, model: Any, stop_ids: Sequence[int]) -> None:
        self.model = inner_model(model)
        self.stop_ids = frozenset(stop_ids)
        self.count = TokenCount()
        self.check_model()

    def check_model(self) -> None:
        """See that the model is one to sample from, and how large its keys and values are.

        Raises:
            ConfigError: it is not: branches would not be exact.
        """
        check_shared(self.model)
        config = self.model.config.get_text_config()
        self.layers, self.heads, self.dim = key_shape(config)
        self.query_groups = config.num_attention_heads // self.heads  # heads of queries to a head of keys

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """How the model computes while it samples: through branches, without gradient, adapters merged."""
        with (
            merged_adapters(self.model), torch.inference_mode(), packed_weights(self.model),
            branch_attention(self.model), plain_writes(self.model.device),
        ):  # fmt: skip
            yield

    def tensor(self, numbers: Any) -> Tensor:
        """Whole numbers as a tensor on the model's device."""
        return torch.tensor(numbers, dtype=torch.long, device=self.model.device)

    def tail_cache(self, rows: int, capacity: int) -> TailCache:
        """Empty per-row storage that fits the model."""
        return TailCache.empty(rows, capacity, self.layers, self.heads, self.dim, self.model.dtype, self.model.device)

    def prefill(self, prompts: Sequence[Sequence[int]], shortest: int | None = None) -> StemCache:
        """Keys and values of the prompts; what all begin with (up to `shortest` tokens) is computed and stored once."""
        lead = common_prefix(prompts)
        lead = lead if shortest is None else min(lead, shortest)
        prefix = None
        if lead:
            writer = StemPrefill()
            self.forward(writer, self.tensor([prompts[0][:lead]]), self.tensor([range(lead)]))
            prefix = (writer.keys, writer.values)
        rests = [list(p[lead:]) for p in prompts]
        self.count.prefilled += lead + sum(map(len, rests))
        stored = self.tail_cache(len(prompts), max(map(len, rests)))
        most = None if self.model.device.type == "cpu" else PREFILLED
        for rows in batches_by_length([len(rest) for rest in rests], most=most):
            wide = max(len(rests[row]) for row in rows)
            if wide == 0:
                continue
            writer = StemPrefill(prefix)
            ids = self.tensor([rests[row] + [0] * (wide - len(rests[row])) for row in rows])
            self.forward(writer, ids, self.tensor(range(lead, lead + wide)).expand(len(rows), -1))
            index = self.tensor(rows)
            for store, new in ((stored.keys, writer.keys), (stored.values, writer.values)):
                for layer in range(self.layers):
                    store[layer][index, :, :wide] = new[layer]
        return StemCache(stored.keys, stored.values, prefix)

    def forward(self, branches: Attending, ids_RW: Tensor, positions_RW: Tensor) -> Tensor:
        """Hidden states [R, w, hidden] before the output head."""
        output = backbone(self.model)(
            input_ids=ids_RW, position_ids=positions_RW, attention_mask=None, use_cache=False, branches=branches
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def choose(self, rows: Sequence[Row], lines: Sequence[int], hidden_NH: Tensor) -> None:
        """Sample each row's next id from its line, by inverse transform with the row's own random number; record it."""
        temperatures = [1.0] * len(hidden_NH)
        rows_of: dict[int, list[int]] = {}
        for at, (row, line) in enumerate(zip(rows, lines, strict=True)):
            temperatures[line] = row.temperature or 1.0
            rows_of.setdefault(line, []).append(at)
        logits_NV = self.model.get_output_embeddings()(hidden_NH)
        on_cpu = logits_NV.device.type == "cpu"
        step = max(1, (CACHED if on_cpu else AT_ONCE) // logits_NV.shape[1])
        for start in range(0, len(logits_NV), step):
            block_BV = logits_NV[start : start + step]
            members = [at for line in range(start, start + len(block_BV)) for at in rows_of.get(line, ())]
            if members:
                inside = [lines[at] - start for at in members]
                self._choose([rows[at] for at in members], inside, block_BV, temperatures[start : start + step])

    def _choose(self, rows: Sequence[Row], lines: Sequence[int], logits_BV: Tensor, temperatures: list[float]) -> None:
        logits_BV = logits_BV.float()
        if any(temperature != 1.0 for temperature in temperatures):
            logits_BV = logits_BV / torch.tensor(temperatures, device=logits_BV.device)[:, None]
        logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
        line_R = self.tensor(lines)
        ids_R = torch.empty_like(line_R)
        greedy = [at for at, row in enumerate(rows) if row.temperature == 0.0]
        if greedy:
            index = self.tensor(greedy)
            ids_R[index] = logprobs_BV.argmax(dim=-1)[line_R[index]]
        sampled = [at for at, row in enumerate(rows) if row.temperature > 0.0]
        if sampled:
            uniforms = [rows[at].uniforms[len(rows[at].ids)] for at in sampled]
            uniform_R = torch.tensor(uniforms, dtype=torch.float64, device=logits_BV.device)
            index = self.tensor(sampled)
            ids_R[index] = inverse_transform(logprobs_BV, uniform_R, line_R[index])
        chosen_R = logprobs_BV[line_R, ids_R]
        for row, token, logprob in zip(rows, ids_R.tolist(), chosen_R.tolist(), strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)
            row.done = token in self.stop_ids


def inverse_transform(logprobs_NV: Tensor, uniform_R: Tensor, line_R: Tensor, block: int = 256) -> Tensor:
    """For each uniform number, the id at which the cumulative probability of its line passes it.

    In two steps, over sums of blocks of ids and then inside one block: a running sum over the whole vocabulary is most
    of what sampling costs. Running sums are in fp64: fp32 loses the tail.
    """
    count, size = logprobs_NV.shape
    padding = -size % block
    probs_NV = logprobs_NV.exp()
    probs_NKB = (torch.nn.functional.pad(probs_NV, (0, padding)) if padding else probs_NV).view(count, -1, block)
    until_RK = probs_NKB.sum(dim=-1).double().cumsum(dim=-1)[line_R]
    target_R1 = uniform_R.to(torch.float64)[:, None] * until_RK[:, -1:]
    block_R1 = torch.searchsorted(until_RK, target_R1, right=True).clamp(max=until_RK.shape[1] - 1)
    before_R1 = torch.nn.functional.pad(until_RK, (1, 0)).gather(1, block_R1)
    inside_RB = probs_NKB[line_R, block_R1[:, 0]].double()
    passed_RB = before_R1 + inside_RB.cumsum(dim=-1)
    # Rounding may leave the target behind the block's last id that has any probability: that one is meant then.
    last_R1 = (block - 1) - (inside_RB.flip(-1) > 0).to(torch.int8).argmax(dim=-1, keepdim=True)
    place_R1 = torch.minimum(torch.searchsorted(passed_RB, target_R1, right=True), last_R1)
    return (block_R1 * block + place_R1)[:, 0]
