"""States of a terminal: a workspace, what was asked, what was shown before, the expert's command and other commands.

They stand in `terminal_states.txt`, a block each: a task, the expert's command, then `kind | command` lines, written by
hand, with what is changed in each. Which of them do the same is found by executing them, never said there. `$ command`
lines are turns before the state, whose output it shows. Files that such a turn shows whole (`cat FILE`) are the same in
every copy of the workspace: the agent knows them. `⏎` stands for a new line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True, slots=True)
class State:
    """`others`: (kind, command)."""

    world: str
    task: str
    expert: str
    others: tuple[tuple[str, str], ...]
    history: tuple[str, ...]

    @property
    def id(self) -> str:
        """Content hash of what the agent sees and of the expert's command."""
        text = "\x1f".join((self.world, self.task, self.expert, *self.history))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def seen(self) -> tuple[str, ...]:
        return tuple(command[4:] for command in self.history if command.startswith("cat ") and " " not in command[4:])


def states() -> list[State]:
    """All states, in the order of their text."""
    return list(_read(_FILE.read_text(encoding="utf-8")))


def _read(text: str) -> Iterator[State]:
    world = ""
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("== "):
            world = lines.pop(0)[3:]
        history = tuple(line[2:] for line in lines if line.startswith("$ "))
        task, expert, *others = [line for line in lines if not line.startswith("$ ")]
        pairs = (line.split(" | ", 1) for line in others)
        yield State(
            world, task, _command(expert), tuple((kind, _command(one)) for kind, one in pairs), ("ls", *history)
        )


def _command(text: str) -> str:
    """`⏎` stands for a new line."""
    return text.replace("⏎", "\n")
