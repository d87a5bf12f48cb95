"""The file that an agent has open: SWE-agent's editor has no path of its own and edits what was opened last."""

from __future__ import annotations

import re
from dataclasses import replace

from pivotrl_core.types import Candidate, Role
from pivotrl_core.verifiers.software.steps import Step, read_step
from pivotrl_core.verifiers.software.tools import Category, Operation

_OPEN = re.compile(r"\(Open file: ([^\n]{1,4096}?)\)")
_NONE = "n/a"


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
