"""What a judge is asked: a rubric from a file, with the end of the state and both actions as data.

A candidate's text may try to give the verdict itself. So labels in whatever is quoted are broken up (the parser knows
no broken ones), and data stand between marks that hold a digest of all that is quoted: what was written before it was
known cannot end them. Placeholders are filled in one pass, so that data cannot fill others.

A template is a text with the system message above a line of five dashes and the user's below, and the placeholders
`$state`, `$a`, `$b` (data with their marks) and `$mark` (what marks hold). `DOMAIN.txt` goes before `default.txt`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from pivotrl_core.errors import ConfigError
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Message, Role, ToolCall
from pivotrl_core.verifiers.judge.labels import LABEL

BUNDLED = Path(__file__).parent / "data"
DEFAULT = "default"
BORDER = "\n-----\n"
NEEDED = ("a", "b")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question to a judge."""

    system: str
    user: str


class Rubrics:
    """The templates of a folder (None: the bundled ones). `texts` are their contents, by name.

    Raises:
        ConfigError: the folder has no `default.txt`, or a template lacks a part.
    """

    def __init__(self, folder: Path | None = None) -> None:
        place = BUNDLED if folder is None else folder
        self.texts: Mapping[str, str] = {
            file.stem: file.read_text(encoding="utf-8") for file in sorted(place.glob("*.txt"))
        }
        if DEFAULT not in self.texts:
            raise ConfigError(f"verifier.judge.templates: {place} has no {DEFAULT}.txt; write one, or leave it empty")
        for name, text in self.texts.items():
            template = Template(text)
            known = {"state", "mark", *NEEDED}
            fits = template.is_valid() and set(NEEDED) <= set(template.get_identifiers()) <= known
            if not fits or text.count(BORDER) != 1:
                raise ConfigError(
                    f"verifier.judge.templates: {place / name}.txt needs a line of five dashes between the system's "
                    "and the user's message, and $a and $b; it may have $state and $mark, and writes $ itself as $$"
                )

    def ask(self, domain: str, state: str, a: str, b: str) -> Prompt:
        """The question whether actions A and B are interchangeable."""
        quoted = [_quotable(text) for text in (state, a, b)]
        mark = hashlib.sha256(json.dumps(quoted).encode()).hexdigest()[:12]
        names = {"state": "END OF THE CONVERSATION", "a": "ACTION A", "b": "ACTION B"}
        data = {
            place: f"<<<{name}:{mark}\n{text}\n{mark}>>>"
            for (place, name), text in zip(names.items(), quoted, strict=True)
        }
        parts = self.texts.get(domain, self.texts[DEFAULT]).split(BORDER)
        system, user = (Template(part).substitute(data, mark=mark).strip() for part in parts)
        return Prompt(system, user)


def state_text(candidate: Candidate, characters: int) -> str:
    """The last characters of a state, message by message; its tools are left to what the actions name."""
    parts: list[str] = []
    room = characters
    for message in reversed(candidate.state):
        if message.role is Role.SYSTEM:
            continue
        text = f"[{message.role}] {_said(message.content, message.tool_calls)}"
        if len(text) > room:
            parts.append(f"[...] {text[len(text) - room :]}")
            break
        parts.append(text)
        room -= len(text)
    return "\n\n".join(reversed(parts))


def action_text(action: Action | Message) -> str:
    """What an action says and calls, without its thinking."""
    return _said(split_thinking(action.content)[1], action.tool_calls)


def _quotable(text: str) -> str:
    """Text without labels, and without halves of surrogate pairs, which no request can carry."""
    return LABEL.sub("(label removed)", text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _said(content: str, calls: Sequence[ToolCall]) -> str:
    lines = [json.dumps({"tool": call.name, "arguments": call.arguments}, ensure_ascii=False) for call in calls]
    return "\n".join([content.strip(), *lines] if content.strip() else lines)
