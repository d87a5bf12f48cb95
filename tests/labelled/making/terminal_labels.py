"""Labels by execution: two commands do the same where they do it in a workspace and in all other copies of it.

Compared are files (bytes, kinds, executable bits), what both streams show, the exit status, and the folder that the
shell is left in. What is shown is compared as it is, but for: white space at its end; the spelling of paths (`./a`,
`/box/a` and `a`); and the order of lines where the expert's own order follows that in which files were made.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.workspace import Node
from tests.labelled.making.terminal_states import State
from tests.labelled.making.terminal_worlds import world

COPIES = 5
_LIMITS = sandbox.SandboxLimits(wall_seconds=240, cpu_seconds=240, output_bytes=32 * 2**20, memory_bytes=1024 * 2**20)
_BROKEN = re.compile(
    r"syntax error|unexpected EOF|unexpected token|command not found|invalid option|unrecognized option|unknown option|"
    r"[Uu]sage:|unterminated|unknown command|unmatched|parse error|compile error|SyntaxError|unknown predicate|"
    r"missing argument|invalid argument|ambiguous redirect|not an option|Try '"
)
_ASTRAY = re.compile(r"No such file|cannot access|can't (?:read|open)|did not match any file|Could not open")
_HERE = re.compile(r"(?<![\w./])(?:\./+|/box/)(?=\S)")


class Label(StrEnum):
    VALID = "valid"
    WRONG = "wrong"
    UNCLEAR = "unclear"
    """The exit status alone differs, or the layout of what is shown, or a command came to no end."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """`chance`: wrong, and the same in the workspace itself; only other copies tell. `where`: what differs.

    `broken`: the shell or a tool said that the command is none; `astray`: that something is not there.
    """

    label: Label
    where: str = ""
    chance: bool = False
    broken: bool = False
    astray: bool = False


def label_commands(state: State, commands: Sequence[str]) -> dict[str, Labelled]:
    """A label for each command, against the expert's; none of them where the expert's has no effect of its own."""
    found: dict[str, Labelled] = {}
    left, unordered = list(commands), False
    for copy in range(COPIES):
        again = _run_copy(state, copy, (state.expert,), backwards=True)[0]
        expert, *runs = _run_copy(state, copy, (state.expert, *left))
        unordered = unordered or _difference(expert, again, unordered=False) == "output"
        if _difference(expert, again, unordered):
            return {}
        if copy == 0 and not _has_effect(expert):
            return {}
        for command, run in zip(tuple(left), runs, strict=True):
            where = _difference(expert, run, unordered)
            if where in ("files", "output", "folder"):
                chance = copy > 0 and not (command in found and found[command].where)
                said = [bool(pattern.search(run["output"])) for pattern in (_BROKEN, _ASTRAY)]
                found[command] = Labelled(Label.WRONG, where, chance, *said)
                left.remove(command)
            elif where:
                found[command] = Labelled(Label.UNCLEAR, where)
    return {**{command: Labelled(Label.VALID) for command in left}, **found}


def _has_effect(run: dict[str, Any]) -> bool:
    return not run["late"] and bool(run["output"].strip() or run["changes"] or run["git"])


def _difference(expected: dict[str, Any], actual: dict[str, Any], unordered: bool) -> str:
    if expected["late"] or actual["late"]:
        return "late"
    if actual["background"]:
        return "background"
    if (expected["changes"], expected["git"]) != (actual["changes"], actual["git"]):
        return "files"
    if expected["folder"] != actual["folder"]:
        return "folder"
    shown = [_shown(one["output"], unordered) for one in (expected, actual)]
    if shown[0] != shown[1]:
        return "layout" if shown[0].split() == shown[1].split() else "output"
    return "status" if expected["status"] != actual["status"] else ""


def _shown(text: str, unordered: bool) -> str:
    text = _HERE.sub("", text).rstrip()
    return "\n".join(sorted(text.split("\n"))) if unordered else text


def observe(state: State) -> list[tuple[str, str]]:
    """The turns before a state: (command, what it showed)."""
    runs = _run_copy(state, 0, state.history)
    return [(command, run["output"]) for command, run in zip(state.history, runs, strict=True)]


def _run_copy(state: State, copy: int, commands: Sequence[str], backwards: bool = False) -> list[dict[str, Any]]:
    shown = {path: world(state.world, 0)[path] for path in state.seen}
    nodes = sorted({**world(state.world, copy), **shown}.items())
    return run_commands(nodes, commands, backwards)


def run_commands(
    nodes: Sequence[tuple[str, Node]], commands: Sequence[str], backwards: bool = False
) -> list[dict[str, Any]]:
    """What each command did in a fresh folder with these nodes, all in one sandbox."""
    plain = [[path, str(node.kind), base64.b64encode(node.content).decode(), node.executable] for path, node in nodes]
    job = {"nodes": plain, "runs": [[backwards, command] for command in commands]}
    result = sandbox.run(
        ["/usr/bin/python3", "-I", "-S", "-B", "-c", _driver()], {"job.json": json.dumps(job)}, _LIMITS
    )
    lines = result.stdout.splitlines()
    if len(lines) != len(commands):
        raise RuntimeError(f"{len(lines)} of {len(commands)} commands came back: {result.stop} {result.stderr[-500:]}")
    return [json.loads(line) for line in lines]


@functools.cache
def _driver() -> str:
    return Path(__file__).with_name("terminal_driver.py").read_text(encoding="utf-8")
