"""Commands that the bundled model, SmolLM2-135M-Instruct, wrote at every state: kept, so that it is not needed again.

    python -m tests.labelled.making.terminal_sampling MODEL_FOLDER

writes `tests/labelled/terminal/samples.jsonl`: {"state", "begun", "command"}. Freely asked, a model of this size writes
hardly any command that runs. So it is shown three tasks of other workspaces that are solved in two ways each, then the
task and the expert's command, and it goes on with the second way from a beginning (`begun`) that is given: its first
tokens, as many for all rows of a state, of the expert's command or of one of the commands written by hand.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.labelled.making.terminal_states import State, states

SAMPLES = Path(__file__).parents[1] / "terminal" / "samples.jsonl"
_ROWS, _STEPS, _TEMPERATURE = 18, 16, 0.8
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
    def commands(self, state: State) -> list[tuple[str, str]]:
        """(beginning, command) of every row."""
        draw = random.Random(state.id)
        generator = torch.Generator().manual_seed(draw.getrandbits(48))
        prompt = self.ids(f"Task: {state.task}\n1: {state.expert.replace(chr(10), '; ')}\n2:")
        begun = self.beginnings(state, draw)
        cache = copy.deepcopy(self.shown)
        cache = self.model(torch.tensor([prompt]), past_key_values=cache, use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(begun))
        rows, tokens = [list(ids) for ids in begun], torch.tensor(begun)
        open_rows, ended = list(range(len(rows))), set[int]()
        for _ in range(_STEPS):
            logits = self.model(tokens, past_key_values=cache, use_cache=True).logits[:, -1].float()
            drawn = torch.multinomial((logits / _TEMPERATURE).softmax(-1), 1, generator=generator)
            goes_on = ~torch.isin(drawn[:, 0], self.ends)
            for row, token, more in zip(open_rows, drawn[:, 0].tolist(), goes_on.tolist(), strict=True):
                if more:
                    rows[row].append(token)
                else:
                    ended.add(row)
            if not goes_on.any():
                break
            open_rows = [row for row, more in zip(open_rows, goes_on.tolist(), strict=True) if more]
            cache.batch_select_indices(goes_on.nonzero()[:, 0])
            tokens = drawn[goes_on]
        decode = self.tokenizer.decode
        return [(decode(begun[row]).strip(), decode(rows[row]).strip()) for row in sorted(ended)]

    def beginnings(self, state: State, draw: random.Random) -> list[list[int]]:
        commands = [command for command in (state.expert, *(other for _, other in state.others)) if "\n" not in command]
        commands = commands or [state.expert.split("\n")[0]]
        lines = [self.ids(" " + command) for command in commands]
        cut = max(2, round(sorted(map(len, lines))[len(lines) // 2] * draw.uniform(0.2, 0.65)))
        long = [ids for ids in lines if len(ids) > cut] or [max(lines, key=len)]
        return [long[at % len(long)][:cut] for at in range(_ROWS)]


def main() -> None:
    """Sample at all states and write what came, each command once."""
    sampler = Sampler(sys.argv[1])
    with SAMPLES.open("w", encoding="utf-8") as file:
        for state in states():
            found: dict[str, str] = {}
            for begun, command in sampler.commands(state):
                found.setdefault(command, begun)
            for command, begun in sorted(found.items()):
                file.write(json.dumps({"state": state.id, "begun": begun, "command": command}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
