"""Commands that the bundled model, SmolLM2-135M-Instruct, wrote at every state: kept, so that it is not needed again.

    python -m tests.labelled.making.terminal_sampling MODEL_FOLDER

writes `tests/labelled/terminal/samples.jsonl`: {"state", "begun", "command"}. Freely asked, a model of this size writes
hardly any command that runs. So it is shown three tasks of other workspaces that are solved in two ways each, then the
task and the expert's command, and it goes on with the second way from a beginning (`begun`) that is given: the first
three to eight tenths of the tokens of the expert's command or of one of the commands written by hand.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.labelled.making.terminal_states import State, states

SAMPLES = Path(__file__).parents[1] / "terminal" / "samples.jsonl"
_ROWS, _STEPS, _TEMPERATURE, _AT_ONCE = 16, 14, 0.8, 6
_CUTS = (0.3, 0.45, 0.6, 0.75)
_SHOWN = """Each task is solved by two shell commands that do the same.
Task: Print lines 1 to 20 of big.log.
1: head -n 20 big.log
2: sed -n '1,20p' big.log
Task: Print the names in users.db, each once.
1: awk -F: '{print $1}' users.db | sort | uniq
2: cut -d: -f1 users.db | sort -u
Task: Remove the old files in lib.
1: rm lib/*.old
2: find lib -name '*.old' -delete
"""


class Sampler:
    """The model, with what all prompts begin with computed once."""

    def __init__(self, folder: str) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.bfloat16).eval()
        self.ends = torch.tensor([
            self.tokenizer.eos_token_id,
            *(index for index in range(len(self.tokenizer)) if self.tokenizer.decode([index]).startswith("\n")),
        ])  # fmt: skip
        with torch.inference_mode():
            self.shown = self.model(torch.tensor([self.ids(_SHOWN)]), use_cache=True).past_key_values

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text).input_ids)

    @torch.inference_mode()
    def commands(self, chosen: Sequence[State]) -> list[list[tuple[str, str]]]:
        """(beginning, command) of every row of some states, all at once: padded on the left, and padding masked."""
        prompts = [self.ids(f"Task: {one.task}\n1: {one.expert.replace(chr(10), '; ')}\n2:") for one in chosen]
        begun = [ids for one in chosen for ids in self.beginnings(one)]
        generator = torch.Generator().manual_seed(int(chosen[0].id, 16) % 2**48)
        mask = torch.ones(len(chosen), self.shown.get_seq_length(), dtype=torch.long)
        cache = copy.deepcopy(self.shown)
        cache.batch_repeat_interleave(len(chosen))
        mask, _ = self._read(prompts, mask, cache)
        cache.batch_repeat_interleave(_ROWS)
        mask, logits = self._read(begun, mask.repeat_interleave(_ROWS, 0), cache)
        rows, open_rows, ended = [list(ids) for ids in begun], list(range(len(begun))), set[int]()
        for _ in range(_STEPS):
            drawn = torch.multinomial((logits.float() / _TEMPERATURE).softmax(-1), 1, generator=generator)[:, 0]
            goes_on = ~torch.isin(drawn, self.ends)
            for row, token, more in zip(open_rows, drawn.tolist(), goes_on.tolist(), strict=True):
                if more:
                    rows[row].append(token)
                else:
                    ended.add(row)
            if not goes_on.any():
                break
            open_rows = [row for row, more in zip(open_rows, goes_on.tolist(), strict=True) if more]
            cache.batch_select_indices(goes_on.nonzero()[:, 0])
            mask, logits = self._read([[token] for token in drawn[goes_on].tolist()], mask[goes_on], cache)
        decode = self.tokenizer.decode
        texts = [(decode(first).strip(), decode(row).strip()) for first, row in zip(begun, rows, strict=True)]
        return [
            [texts[row] for row in range(at * _ROWS, (at + 1) * _ROWS) if row in ended] for at in range(len(chosen))
        ]

    def _read(self, rows: Sequence[Sequence[int]], mask: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        """Puts ids behind what the cache holds; (mask with them, logits behind the last of each row)."""
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows])
        new = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        mask = torch.cat([mask, new], 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        found = self.model(
            ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return mask, found.logits[:, -1]

    def beginnings(self, state: State) -> list[list[int]]:
        """The first tokens of the commands of a state: cut at several lengths, in turns."""
        commands = [command for command in (state.expert, *(other for _, other in state.others)) if "\n" not in command]
        lines = [self.ids(" " + command) for command in commands or [state.expert.split("\n")[0]]]
        return [
            ids[: max(1, round(len(ids) * _CUTS[(at // len(lines) + at) % len(_CUTS)]))]
            for at, ids in ((at, lines[at % len(lines)]) for at in range(_ROWS))
        ]


def main() -> None:
    """Sample at all states and write what came, each command once."""
    sampler, everyone = Sampler(sys.argv[1]), states()
    with SAMPLES.open("w", encoding="utf-8") as file:
        for start in range(0, len(everyone), _AT_ONCE):
            chosen = everyone[start : start + _AT_ONCE]
            for state, commands in zip(chosen, sampler.commands(chosen), strict=True):
                found = {command: begun for begun, command in reversed(commands)}
                for command, begun in sorted(found.items()):
                    file.write(json.dumps({"state": state.id, "begun": begun, "command": command}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
