"""States of coding agents, and the rows that pairs at them make."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.labelled.making.pair_rows import pair_id, part_of
from tests.labelled.making.software_dialects import Call, Dialect
from tests.labelled.making.software_tasks import Function, class_name
from tests.labelled.making.software_worlds import Tree

SYSTEM = "You are a coding agent resolving an issue in a repository. Choose the single next tool call."


@dataclass(frozen=True, slots=True)
class State:
    """What an agent has seen, what the expert does there, and what the row says beyond that.

    `task` is the state in one sentence, for prompts; `need` the lines (first, last) that a view is for.
    """

    sort: str
    dialect: Dialect
    tree: Tree
    workspace: str
    history: tuple[dict[str, Any], ...]
    expert: Call
    task: str
    function: Function | None = None
    inside: str = ""
    old: str = ""
    tests: str = ""
    need: tuple[int, int] = (0, 0)

    @property
    def id(self) -> str:
        """Names the state's prompts and draws: what was seen, what is expected, and where."""
        return digest([list(self.history), self.expert.item(0), self.workspace])

    @property
    def params(self) -> dict[str, Any]:
        """The state as rows have it."""
        return {"input": list(self.history), "tools": self.dialect.tools, "parallel_tool_calls": False,
                "tool_choice": "auto"}  # fmt: skip


@dataclass(slots=True)
class Pair:
    """Another call at a state, and what is known about it. `label` is empty until it is established."""

    state: State
    call: Call
    origin: str
    kind: str
    label: str = ""
    established: str = "executed"
    meant: str = ""
    """What the one who wrote it meant it to be: where the label says otherwise it is left out."""
    notes: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The pair as a line of the set."""
        state = self.state
        row: dict[str, Any] = {
            "label": self.label, "origin": self.origin, "kind": self.kind, "established": self.established,
            "pivot_tags": ["P1"], "metadata": {"category": state.sort}, "responses_create_params": state.params,
            "expected_action": state.expert.item(9), "response": {"output": [self.call.item(9)]},
        }  # fmt: skip
        row |= {"workspace": state.workspace} if state.workspace else {}
        row |= {"tests": state.tests} if state.tests else {}
        return {"pair": pair_id(row), "part": part_of(row).value, **row}


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def history(text: str, *turns: tuple[Call, str]) -> tuple[dict[str, Any], ...]:
    """The items of a state: the system's and the user's message, then calls with what they printed."""
    items: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    for number, (call, output) in enumerate(turns, start=1):
        items.append(call.item(number))
        items.append({"type": "function_call_output", "call_id": f"call_{number}", "output": output})
    return tuple(items)


def numbered(text: str, first: int, last: int) -> str:
    """Lines of a file as viewers number them."""
    lines = text.split("\n")[first - 1 : last]
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start=first))


def span(one: Function, text: str) -> tuple[int, int]:
    """First and last line of a function in its module's text, its wrong body in place."""
    whole = f"{one.head}\n{one.wrong}\n"
    first = text[: text.index(whole)].count("\n") + 1
    return first, first + whole.count("\n") - 1


def test_command(one: Function) -> str:
    return f"python3 -m unittest tests.test_{one.module}.{class_name(one)}"


def edit_state(one: Function, tree: Tree, workspace: str, dialect: Dialect) -> State:
    """The agent has seen the function; the expert gives it the right body."""
    text = tree[one.path]
    first, last = span(one, text)
    old, new = one.wrong, one.right
    if text.count(old) > 1:
        last_of_head = one.head.rpartition("\n")[2]
        old, new = f"{last_of_head}\n{old}", f"{last_of_head}\n{new}"
    if dialect.name == "swe-agent":
        look = Call("open", {"path": one.path, "line_number": first})
        count = text.count("\n")
        lines = numbered(text, first, last)
        shown = f"[File: {one.path} ({count} lines total)]\n{lines}\n(Open file: /testbed/{one.path})"
    else:
        look, shown = dialect.view(one.path, first, last), numbered(text, first, last)
    said = f"Issue: {one.part('issue')}\n\nThe repository is in {dialect.root or '/testbed'}; resolve the issue."
    return State("edit", dialect, tree, workspace, history(said, (look, shown)), dialect.replace(one.path, old, new),
                 one.part("issue"), one, one.path, old, test_command(one))  # fmt: skip


def with_body(state: State, body: str) -> Call:
    """The expert's edit with another body."""
    one = state.function
    assert one is not None
    above = state.old[: -len(one.wrong)]
    return state.dialect.replace(state.inside, state.old, above + body)
