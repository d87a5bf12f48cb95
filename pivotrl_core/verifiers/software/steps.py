"""A call of a coding agent's tool as a step: what it does and to what, in fields that all tools share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.types import Json, ToolCall
from pivotrl_core.verifiers.schema import Schema, absent_names, with_defaults
from pivotrl_core.verifiers.software import tools
from pivotrl_core.verifiers.software.paths import Lines, lines_of, plain_path, read_number
from pivotrl_core.verifiers.software.tools import CATEGORY_OF, Category, Operation, operation_of

_LINE_NAMES = {"range": tools.RANGE, "first": tools.FIRST_LINE, "last": tools.LAST_LINE, "line": tools.ONE_LINE}
_WITH_PATH = frozenset({
    Operation.VIEW, Operation.CREATE, Operation.REPLACE, Operation.INSERT, Operation.LINES, Operation.PATCH,
    Operation.DELETE, Operation.UNDO, Operation.CONTENT, Operation.FILES, Operation.LIST,
})  # fmt: skip
_NEEDS_PATH = frozenset({Operation.VIEW, Operation.CREATE, Operation.DELETE, Operation.UNDO})
_NOTHING = (None, False, "", "false", "False")
MAX_PAIRS = 64


@dataclass(frozen=True, slots=True)
class Step:
    """What a call does.

    Attributes:
        operation: what is done.
        arguments: of the call, defaults of its schema filled in.
        error: why the arguments could not be read; empty where they could.
        path: plain path of what it is done to; `.` for a search without one.
        lines: which lines of it are looked at or replaced; None where the range cannot be read.
        line: after which line text is inserted.
        pairs: texts of the file with what takes their place; for whole texts the first of a pair is empty.
        pattern: what is searched for.
        command: what is run.
        rest: all other arguments that count.
        missing: what identifies such a step, or is required, and is not there.
    """

    operation: Operation
    arguments: Mapping[str, Json] = field(default_factory=dict)
    error: str = ""
    path: str = ""
    lines: Lines | None = None
    line: int | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    pattern: str = ""
    command: str = ""
    rest: Mapping[str, Json] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def category(self) -> Category:
        return CATEGORY_OF[self.operation]


def read_step(call: ToolCall, schema: Schema, own_shell: bool = True) -> Step:
    """The step that a call is. Never raises.

    Args:
        call: a call of any agent's tool.
        schema: of its arguments, empty where that is not known.
        own_shell: whether SWE-agent's commands, typed into a shell, are what they are in SWE-agent's.
    """
    decoded = decode_arguments(call.arguments)
    if decoded.error:
        return Step(operation_of(call.name, {}), error=decoded.error)
    arguments = with_defaults(decoded.value, schema, schema) if schema else decoded.value
    operation = operation_of(call.name, arguments)
    reading = _Reading(arguments)
    step = _read(operation, reading) if operation is not Operation.CALL else Step(operation, arguments)
    if own_shell and step.operation is Operation.RUN and (inner := _agent_command(step.command)):
        return inner
    absent = absent_names(schema, arguments)
    return replace(step, missing=(*step.missing, *absent)) if absent else step


class _Reading:
    """Arguments while roles are taken from them: what nobody took is the rest."""

    def __init__(self, arguments: Mapping[str, Json]) -> None:
        self.arguments = arguments
        self.used: set[str] = set()
        self.missing: list[str] = []

    def text(self, names: Sequence[str], role: str = "") -> str:
        """The first of the named arguments that is a text; what has a `role` is missing where it is absent or blank."""
        for name in names:
            value = self.arguments.get(name)
            if isinstance(value, str) and name not in self.used:
                self.used.add(name)
                if role and not value.strip():
                    break
                return value
        if role:
            self.missing.append(role)
        return ""

    def number(self, names: Sequence[str], role: str) -> int | None:
        for name in names:
            if name in self.arguments:
                self.used.add(name)
                value = read_number(self.arguments[name])
                if value is not None:
                    return value
        self.missing.append(role)
        return None

    def rest(self) -> dict[str, Json]:
        """What is left, without what says nothing; flags that are off are as good as absent."""
        return {
            tools.OPTIONS.get(name, name): value
            for name, value in self.arguments.items()
            if name not in self.used
            and name not in tools.UNCOUNTED
            and not any(value is nothing or value == nothing for nothing in _NOTHING if not _is_zero(value))
        }


def _is_zero(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read(operation: Operation, reading: _Reading) -> Step:
    """The step's fields, taken in the order in which names could be mistaken for one another."""
    pattern = ""
    if operation in (Operation.CONTENT, Operation.FILES):
        names = tools.PATTERN if operation is Operation.CONTENT else ("file_name", "filename", *tools.PATTERN)
        pattern = reading.text(names, "pattern")
    path = ""
    if operation in _WITH_PATH:
        path = plain_path(reading.text(tools.PATH, "path" if operation in _NEEDS_PATH else ""))
    lines: Lines | None = None
    if operation in (Operation.VIEW, Operation.GOTO, Operation.LINES):
        lines, used = lines_of(reading.arguments, _LINE_NAMES)
        reading.used |= used
        if lines is None or (operation is not Operation.VIEW and not used):
            reading.missing.append("lines")
    line = reading.number(tools.ONE_LINE, "line") if operation is Operation.INSERT else None
    command = _command(reading) if operation is Operation.RUN else ""
    pairs = _pairs(operation, reading)
    if operation in tools.CATEGORY_OF and CATEGORY_OF[operation] in (Category.EDIT, Category.READ):
        reading.used.add("command")  # the sub-command: the operation says it
    if operation is Operation.PLAN and all(value in ({}, [], *_NOTHING) for value in reading.arguments.values()):
        reading.missing.append("plan")
    loose = CATEGORY_OF[operation] in (Category.FINISH, Category.THINK, Category.PLANNING)
    rest = _outcome(reading) if loose else reading.rest()
    if CATEGORY_OF[operation] is Category.SEARCH:
        path = path or "."
    return Step(
        operation,
        arguments=reading.arguments,
        error="",
        path=path,
        lines=lines,
        line=line,
        pairs=pairs,
        pattern=pattern,
        command=command,
        rest=rest,
        missing=tuple(reading.missing),
    )


def _command(reading: _Reading) -> str:
    """What a shell call runs. Codex writes `["bash", "-lc", "..."]`; a restart or a look at a process runs nothing."""
    for name in tools.COMMAND:
        value = reading.arguments.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            reading.used.add(name)
            is_shell = len(value) == 3 and value[0] in ("bash", "sh") and value[1] in ("-c", "-lc")
            return str(value[2]) if is_shell else shlex.join(value)
    return reading.text(tools.COMMAND, "command")


def _pairs(operation: Operation, reading: _Reading) -> tuple[tuple[str, str], ...]:
    if operation is Operation.REPLACE:
        return _replacements(reading)
    if operation is Operation.PATCH:
        return (("", reading.text(tools.PATCH_TEXT, "text")),)
    if operation in (Operation.CREATE, Operation.INSERT, Operation.LINES):
        given = any(isinstance(reading.arguments.get(name), str) for name in tools.TEXT)
        if not given and operation is Operation.INSERT:
            reading.missing.append("text")
        return (("", reading.text(tools.TEXT)),)
    if operation is Operation.THINK:
        return (("", reading.text((*tools.TEXT, "message"), "text")),)
    return ()


def _replacements(reading: _Reading) -> tuple[tuple[str, str], ...]:
    for name in tools.PAIRS:
        listed = reading.arguments.get(name)
        if isinstance(listed, list) and listed:
            reading.used.add(name)
            parts = [_Reading(one) for one in listed[:MAX_PAIRS] if isinstance(one, Mapping)]
            if len(parts) < len(listed):
                reading.missing.append(name)
            pairs = tuple((part.text(tools.OLD, "old text"), part.text(tools.NEW)) for part in parts)
            reading.missing += [role for part in parts for role in part.missing]
            return pairs
    return ((reading.text(tools.OLD, "old text"), reading.text(tools.NEW)),)


def _outcome(reading: _Reading) -> dict[str, Json]:
    """Of planning, thinking and finishing only a stated outcome counts: whether the task is said to be done."""
    done = reading.arguments.get("task_completed")
    return {} if done in (None, True, "true", "True") else {"task_completed": str(done).lower()[:32]}


_AGENT_COMMANDS = re.compile(
    r"\s*(open|goto|scroll_down|scroll_up|create|search_dir|search_file|find_file|edit|submit)(?![^\s])([^\n]*)(\n.*)?",
    re.DOTALL,
)
_EDITED = re.compile(r"\s*(\d{1,9}):(\d{1,9})\s*")


def _agent_command(command: str) -> Step | None:
    """The step that a command of SWE-agent's own shell is, or None for any other command."""
    match = _AGENT_COMMANDS.fullmatch(command) if len(command) <= 100_000 else None
    if match is None:
        return None
    name, line, below = match[1], match[2], match[3] or ""
    if name == "edit":
        lines = _EDITED.fullmatch(line)
        text = below[1:].rstrip("\n").removesuffix("end_of_edit")
        if lines is None or not below:
            return None
        return Step(Operation.LINES, {}, lines=Lines(int(lines[1]), int(lines[2])), pairs=(("", text),))
    if below.strip():
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return _agent_step(name, words)


def _agent_step(name: str, words: Sequence[str]) -> Step | None:
    names: Mapping[str, tuple[str, ...]] = {
        "open": ("path", "line_number"), "goto": ("line_number",), "create": ("filename",),
        "search_dir": ("search_term", "dir"), "search_file": ("search_term", "file"), "find_file": ("file_name", "dir"),
    }  # fmt: skip
    roles = names.get(name, ())
    if len(words) > len(roles):
        return None
    arguments = dict(zip(roles, words, strict=False))
    return _read(operation_of(name, arguments), _Reading(arguments))
