"""Problems of the labelled pairs of domain code, read from `code_problems/*.txt`.

A problem is a line `### name(arguments) | kinds of inputs`, its statement, and blocks that begin with `---`: the
`reference`, inputs for `tests`, and programs written by hand: `same KIND` and `wrong KIND`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.types import Json

_FOLDER = Path(__file__).with_name("code_problems")


@dataclass(frozen=True, slots=True)
class Problem:
    """A function to be written. `inputs`: of each argument, the kind of values it is called with.

    `same` and `wrong`: (kind, program).
    """

    signature: str
    statement: str
    reference: str
    inputs: tuple[str, ...]
    tests: tuple[list[Json], ...]
    same: tuple[tuple[str, str], ...]
    wrong: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Of the function."""
        return self.signature.partition("(")[0]

    def params(self) -> dict[str, Json]:
        """The state as rows have it."""
        task = "You write Python. Answer with the function and nothing else."
        wish = f"Write a Python function {self.signature}. {self.statement}"
        return {
            "input": [{"role": "system", "content": task}, {"role": "user", "content": wish}],
            "tools": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
        }


def read_problems() -> list[Problem]:
    """All of them, in order."""
    texts = [path.read_text("utf-8") for path in sorted(_FOLDER.glob("*.txt"))]
    return [_read(part) for text in texts for part in text.split("### ")[1:]]


def _read(text: str) -> Problem:
    head, *blocks = text.split("\n--- ")
    first, statement = head.split("\n", 1)
    signature, kinds = first.split(" | ")
    named = [block.split("\n", 1) for block in blocks]
    single = {name: body for name, body in named if " " not in name}
    programs = [(*name.split(" ", 1), f"{body.rstrip()}\n") for name, body in named if " " in name]
    return Problem(
        signature, statement.strip(), f"{single['reference'].rstrip()}\n", tuple(kinds.split(", ")),
        tuple(json.loads(single["tests"])), *(
            tuple((kind, body) for label, kind, body in programs if label == wanted) for wanted in ("same", "wrong")
        ),
    )  # fmt: skip
