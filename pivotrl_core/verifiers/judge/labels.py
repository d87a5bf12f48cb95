"""What a judge's answer says: [[A=B]], [[A!=B]], or nothing that can be relied on.

The default rule takes the last line that says anything: it must hold labels of one kind. A judge that weighs both
labels and ends without one, or is cut off, has said nothing. NeMo Gym's rule, for compat, takes the last label of the
last 200 characters, else the first one anywhere.
"""

from __future__ import annotations

import re

LABEL = re.compile(r"\[\s*\[\s*A\s*(=|!\s*=|≠)\s*B\s*\]\s*\]")
"""A label, however spaced. What is quoted to a judge must hold none (`prompts.py`)."""
EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"
TAIL = 200


def last_line_label(answer: str) -> bool | None:
    r"""True for equal, False for different, None where the last line does not say which.

    >>> last_line_label("They differ in the path, but not in effect.\n**[[A=B]]**")
    True
    >>> last_line_label("[[A=B]]\nor rather [[A!=B]]? [[A=B]] would be generous")
    >>> last_line_label("[[A=B]]\nOne more thought: ")
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    said = {mark == "=" for mark in LABEL.findall(lines[-1])} if lines else set()
    return said.pop() if len(said) == 1 else None


def nemo_gym_label(answer: str) -> bool | None:
    """The same by NeMo Gym's rule (resources_servers/terminus_judge).

    >>> nemo_gym_label("In some cases [[A!=B]] but in this case [[A=B]]")
    True
    """
    tail = answer[-TAIL:]
    equal, different = tail.rfind(EQUAL), tail.rfind(DIFFERENT)
    if max(equal, different) >= 0:
        return equal > different
    equal, different = answer.find(EQUAL), answer.find(DIFFERENT)
    if max(equal, different) < 0:
        return None
    return different < 0 or 0 <= equal < different
