"""SWE-agent's shell: whether a row's is one, and the file that is open in it, which its editor edits without a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from pivotrl_core.types import Candidate, Role
from pivotrl_core.verifiers.row_fields import row_field
from pivotrl_core.verifiers.software.steps import Step, read_step
from pivotrl_core.verifiers.software.tools import Category, Operation

_OPEN = re.compile(r"\(Open file: ([^\n]{1,4096}?)\)")
_NONE = "n/a"
_HARNESS = re.compile(r"swe[-_ ]?agent", re.IGNORECASE)


def has_own_shell(candidate: Candidate) -> bool:
    """Whether `open a.py` is a command: the expert types such a one, the row names the harness, or outputs say it.

    In any other shell it is a program that is not there.
    """
    calls = candidate.expert.tool_calls
    if any(_is_typed(read_step(call, {}), read_step(call, {}, own_shell=False)) for call in calls):
        return True
    metadata = row_field(candidate, "metadata")
    named = metadata.get("harness") if isinstance(metadata, Mapping) else row_field(candidate, "harness")
    if isinstance(named, str) and _HARNESS.match(named):
        return True
    return any(message.role is Role.TOOL and _OPEN.search(message.content) for message in candidate.state)


def _is_typed(own: Step, other: Step) -> bool:
    return other.operation is Operation.RUN and own.operation is not Operation.RUN


def open_file(candidate: Candidate) -> str:
    """Its path as the last output says it, else as the last call that opened or made one does; empty for none."""
    for message in reversed(candidate.state):
        if message.role is Role.TOOL and (told := _OPEN.findall(message.content)):
            return "" if told[-1] == _NONE else str(told[-1])
        for call in reversed(message.tool_calls):
            step = read_step(call, {})
            if step.operation in (Operation.VIEW, Operation.CREATE) and step.path:
                return step.path
    return ""


def with_path(step: Step, path: str) -> Step:
    """An edit without a path, of the open file."""
    return step if step.path or step.category is not Category.EDIT or not path else replace(step, path=path)
