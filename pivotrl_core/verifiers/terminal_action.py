"""What a terminal agent said: Terminus-1 and Terminus-2 JSON, or plain bash.

| harness | keys | a command |
|---|---|---|
| terminus_1 | state_analysis, explanation, commands, is_task_complete | keystrokes, is_blocking, timeout_sec |
| terminus_2 | analysis, plan, commands, task_complete (optional) | keystrokes, duration (optional) |
| bash | a tool call with one text argument, or text: the only code block in it, else all of it | |

A Terminus answer is one JSON object after the last `</think>`: nothing around it, no other keys, no wrong types.
Source: NVIDIA-NeMo/Gym, resources_servers/terminus_judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.types import Action, Candidate, Json, ToolCall, canonical_json
from pivotrl_core.verifiers.row_fields import row_field

MAX_CHARACTERS = 200_000
_FENCE = re.compile(r"^```(?:bash|sh|shell|console)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_SAYS_NOTHING = ("timeout", "timeout_sec", "duration", "description", "explanation", "thought", "security_risk")
"""Arguments of a call that change nothing in what is done."""
_CALL_ARGUMENTS = ("command", "cmd", "keystrokes", "script", "code", "input")


class Harness(StrEnum):
    TERMINUS_1 = "terminus_1"
    TERMINUS_2 = "terminus_2"
    BASH = "bash"


class UnreadableActionError(ValueError):
    """Carries what is wrong with an action."""


@dataclass(frozen=True, slots=True)
class TerminalAction:
    """What is typed, whether the agent says that the task is done, and which tool it types into with what else."""

    keystrokes: str
    complete: bool = False
    tool: str = ""
    settings: str = ""


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_truth(value: Json) -> bool:
    return isinstance(value, bool)


_Check = Callable[[Json], bool]


@dataclass(frozen=True, slots=True)
class _Schema:
    required: Mapping[str, _Check]
    command: Mapping[str, _Check]
    complete: str
    optional: Mapping[str, _Check]
    command_optional: Mapping[str, _Check]


_SCHEMAS = {
    Harness.TERMINUS_1: _Schema(
        {"state_analysis": _is_text, "explanation": _is_text, "is_task_complete": _is_truth},
        {"keystrokes": _is_text, "is_blocking": _is_truth, "timeout_sec": _is_number}, "is_task_complete", {}, {},
    ),
    Harness.TERMINUS_2: _Schema(
        {"analysis": _is_text, "plan": _is_text}, {"keystrokes": _is_text}, "task_complete",
        {"task_complete": _is_truth}, {"duration": _is_number},
    ),
}  # fmt: skip


def harness_of(candidate: Candidate) -> Harness:
    """The harness that the row names; else what the expert's answer looks like.

    Raises:
        UnreadableActionError: the row names one that is not known.
    """
    metadata = row_field(candidate, "metadata")
    named = metadata.get("harness") if isinstance(metadata, Mapping) else row_field(candidate, "harness")
    if named is not None:
        try:
            return Harness(named)
        except ValueError:
            raise UnreadableActionError(f"no harness is named {str(named)[:80]!r}") from None
    if candidate.expert.tool_calls:
        return Harness.BASH
    try:
        answer = _read_object(candidate.expert.content)
    except UnreadableActionError:
        return Harness.BASH
    return Harness.TERMINUS_1 if "is_task_complete" in answer else Harness.TERMINUS_2


def expert_action(candidate: Candidate, harness: Harness) -> TerminalAction:
    """What the expert did. Raises as `read_action` does."""
    return read_action(Action(candidate.expert.content, candidate.expert.tool_calls), harness)


def read_action(action: Action, harness: Harness) -> TerminalAction:
    """What an action says.

    Raises:
        UnreadableActionError: it does not keep to the harness's form.
    """
    if harness is Harness.BASH:
        return _bash(action)
    if action.tool_calls:
        raise UnreadableActionError("a tool call, where one JSON object is the answer")
    return _read_terminus(_read_object(action.text or action.content), _SCHEMAS[harness])


def _read_object(text: str) -> dict[str, Json]:
    answer = text.rpartition("</think>")[2].strip()
    if len(answer) > MAX_CHARACTERS:
        raise UnreadableActionError(f"longer than {MAX_CHARACTERS} characters")
    decoded = decode_arguments(answer)
    if decoded.error:
        raise UnreadableActionError(f"no JSON object: {decoded.error}")
    return decoded.value


def _read_terminus(value: Mapping[str, Json], schema: _Schema) -> TerminalAction:
    _check(value, {**schema.required, "commands": lambda one: isinstance(one, list)}, schema.optional, "")
    for index, command in enumerate(value["commands"]):
        if not isinstance(command, dict):
            raise UnreadableActionError(f"commands[{index}] is no object")
        _check(command, schema.command, schema.command_optional, f"commands[{index}].")
    keystrokes = "".join(command["keystrokes"] for command in value["commands"])
    return TerminalAction(keystrokes, bool(value.get(schema.complete, False)))


def _check(value: Mapping[str, Json], required: Mapping[str, _Check], optional: Mapping[str, _Check], at: str) -> None:
    known = {**required, **optional}
    for key in required:
        if key not in value:
            raise UnreadableActionError(f"{at}{key} is missing")
    for key, one in value.items():
        if key not in known:
            raise UnreadableActionError(f"{at}{key[:80]} is no key of this harness")
        if not known[key](one):
            raise UnreadableActionError(f"{at}{key} is of type {type(one).__name__}")


def _bash(action: Action) -> TerminalAction:
    if len(action.tool_calls) > 1:
        raise UnreadableActionError(f"{len(action.tool_calls)} tool calls; one was expected")
    if action.tool_calls:
        return _read_call(action.tool_calls[0])
    text = (action.text or action.content).rpartition("</think>")[2]
    blocks = _FENCE.findall(text)
    if len(blocks) > 1:
        raise UnreadableActionError(f"{len(blocks)} code blocks; one was expected")
    return TerminalAction(_checked_command(blocks[0] if blocks else text))


def _read_call(call: ToolCall) -> TerminalAction:
    decoded = decode_arguments(call.arguments)
    if decoded.error:
        raise UnreadableActionError(f"arguments of {call.name[:80]}: {decoded.error}")
    name = next((name for name in _CALL_ARGUMENTS if isinstance(decoded.value.get(name), str)), None)
    if name is None:
        raise UnreadableActionError(f"the call of {call.name[:80]} holds no command")
    others = {key: value for key, value in decoded.value.items() if key != name and key not in _SAYS_NOTHING}
    return TerminalAction(_checked_command(decoded.value[name]), tool=call.name, settings=canonical_json(others))


def _checked_command(text: str) -> str:
    if not text.strip():
        raise UnreadableActionError("no command")
    if len(text) > MAX_CHARACTERS:
        raise UnreadableActionError(f"longer than {MAX_CHARACTERS} characters")
    return text
