"""Two steps of a coding agent compared without running anything: is it the same tool, target and change?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rapidfuzz.distance import Indel

from pivotrl_core.types import ToolCall
from pivotrl_core.verifiers.schema import Schema
from pivotrl_core.verifiers.shell import normal_form
from pivotrl_core.verifiers.software.paths import overlap, same_path
from pivotrl_core.verifiers.software.source import Source, read_source, same_source
from pivotrl_core.verifiers.software.steps import Step
from pivotrl_core.verifiers.software.tools import Category, Operation
from pivotrl_core.verifiers.values import Comparison, equal_objects

MAX_CHARACTERS = 20_000
"""Of longer texts a similarity is that of their lines: its time grows with the product of the lengths."""
_PROGRAM = re.compile(
    r"\s*(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*|[A-Za-z_]\w*=[^\s;&|]*\s+|(?:sudo|time|command)\s+)*([^\s;|&<>()]+)"
)


@dataclass(slots=True)
class Expected:
    """A step of the expert's, with what comparisons derive from it, once each."""

    call: ToolCall
    step: Step
    schema: Schema
    offered: frozenset[str]
    """Names that can be called, where that is known (`offered_names`)."""
    own_shell: bool = False
    """Whether commands of SWE-agent's own are typed into this row's shell (`has_own_shell`)."""
    sources: dict[str, tuple[Source, ...]] = field(default_factory=dict)
    shell_form: tuple[str, ...] | bool | None = False

    def form(self) -> tuple[str, ...] | None:
        """The command's normal form, or None."""
        if isinstance(self.shell_form, bool):
            self.shell_form = normal_form(self.step.command)
        return self.shell_form

    def new_texts(self, trimmed: tuple[tuple[str, str], ...], path: str) -> tuple[Source, ...]:
        """What the expert writes, read as source of the file at `path`.

        None where it changes white space or comments alone: then nothing else is the same.
        """
        found = self.sources.get(path)
        if found is None:
            found = tuple(read_source(new, path) for _, new in trimmed)
            if all(same_source(read_source(old, path), new) for (old, _), new in zip(trimmed, found, strict=True)):
                found = ()
            self.sources[path] = found
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found; `lines` is how far two ranges overlap, 1 where there are none.

    `score`: from which overlap on the steps are the same; 0 where no overlap makes them so.
    """

    name: bool
    target: bool = False
    arguments: bool = False
    lines: float = 1.0
    similarity: float = 0.0
    difference: str = ""

    @property
    def score(self) -> float:
        return self.lines if self.name and self.target and self.arguments else 0.0


SAME = Compared(name=True, target=True, arguments=True, similarity=1.0)


def compare(expected: Expected, name: str, actual: Step) -> Compared:
    """Compare a step with the expert's."""
    first = expected.step
    if actual.error or first.error:
        return Compared(name=_same_name(expected, name, actual), difference="arguments: malformed")
    if not _same_name(expected, name, actual):
        return Compared(name=False, difference="name")
    if expected.call.name == name and equal_objects(first.arguments, actual.arguments):
        return SAME
    if missing := actual.missing or first.missing:
        return Compared(name=True, difference=f"missing: {', '.join(missing)}"[:200])
    if first.operation is Operation.CALL or actual.operation is Operation.CALL:
        return _compare_values(expected, actual)
    if difference := _target_difference(first, actual):
        return Compared(name=True, similarity=_similarity(first, actual), difference=difference)
    lines = overlap(first.lines, actual.lines) if first.lines and actual.lines else 1.0
    difference = _content_difference(expected, actual)
    similarity = 1.0 if not difference and lines == 1.0 else _similarity(first, actual)
    return Compared(
        True,
        target=True,
        arguments=not difference,
        lines=lines,
        similarity=similarity,
        difference=difference or ("" if lines == 1.0 else "lines"),
    )


def _same_name(expected: Expected, name: str, actual: Step) -> bool:
    """The same tool, or one of the same category that does what it does under another name.

    Where the row lists its tools and has the expert's among them, a tool that is not in the list cannot be called.
    """
    if expected.call.name == name:
        return True
    categories = (expected.step.category, actual.category)
    same = categories[0] is categories[1] is not Category.OTHER
    return same and (not expected.offered or name in expected.offered)


def _compare_values(expected: Expected, actual: Step) -> Compared:
    """Tools that this domain does not know: all arguments, under their schema."""
    comparison = Comparison(expected.schema)
    score = comparison.score(expected.step.arguments, actual.arguments, expected.schema)
    return Compared(True, True, score == 1.0, similarity=score, difference=comparison.difference[:200])


def _target_difference(expected: Step, actual: Step) -> str:
    if expected.operation is not actual.operation:
        return "operation"
    if expected.path != actual.path and not same_path(expected.path, actual.path):
        return "path"
    if expected.operation is Operation.LINES and expected.lines != actual.lines:
        return "lines"
    if expected.line != actual.line:
        return "line"
    if expected.category is Category.BASH and program(expected.command) != program(actual.command):
        return "program"
    return ""


def program(command: str) -> str:
    """The name of the first program that a command runs, but for changes of folder; empty for none."""
    match = _PROGRAM.match(command[:2000])
    return match[1].rpartition("/")[2] if match else ""


def _content_difference(expected: Expected, actual: Step) -> str:
    first = expected.step
    if first.pattern != actual.pattern:
        return "pattern"
    if first.category is Category.BASH and first.command != actual.command:
        form = expected.form()
        if form is None or form != normal_form(actual.command):
            return "command"
    if first.category is Category.EDIT and not _same_edit(expected, actual):
        return "text"
    if (first.rest or actual.rest) and Comparison({}).score(first.rest, actual.rest, {}) < 1.0:
        return "options"
    return ""


def _same_edit(expected: Expected, actual: Step) -> bool:
    """What is looked for is compared to the character, for editors find it so; what is written by its syntax."""
    first = expected.step
    if first.pairs == actual.pairs:
        return True
    if len(first.pairs) != len(actual.pairs):
        return False
    wanted, given = _trimmed(first), _trimmed(actual)
    if any(one[0] != two[0] for one, two in zip(wanted, given, strict=True)):
        return False
    path = first.path if first.operation is not Operation.PATCH else ""
    sources = expected.new_texts(wanted, path)
    return bool(sources) and all(
        same_source(source, read_source(new, path)) for source, (_, new) in zip(sources, given, strict=True)
    )


def _trimmed(step: Step) -> tuple[tuple[str, str], ...]:
    """Pairs without the white space that both texts of a pair begin or end with: it stays what it is in the file."""
    if step.operation is not Operation.REPLACE or step.rest.get("replace_all"):
        return step.pairs
    return tuple(_trim(old, new) for old, new in step.pairs)


def _trim(old: str, new: str) -> tuple[str, str]:
    start = _shared_space(old, new)
    old, new = old[start:], new[start:]
    end = _shared_space(old[::-1], new[::-1])
    return (old[:-end], new[:-end]) if end else (old, new)


def _shared_space(first: str, second: str) -> int:
    count = 0
    for one, two in zip(first, second, strict=False):
        if one != two or not one.isspace():
            break
        count += 1
    return count


def _similarity(expected: Step, actual: Step) -> float:
    """How alike two steps are, in [0, 1], symmetric: what is run, written or searched for; 0 across operations."""
    if expected.operation is not actual.operation:
        return 0.0
    if expected.category is Category.BASH:
        return text_similarity(expected.command, actual.command)
    if expected.category is Category.EDIT:
        sides = ["\n".join(pair[side] for pair in step.pairs) for side in (0, 1) for step in (expected, actual)]
        return min(text_similarity(sides[0], sides[1]), text_similarity(sides[2], sides[3]))
    if expected.category is Category.SEARCH:
        return text_similarity(expected.pattern, actual.pattern)
    return overlap(expected.lines, actual.lines) if expected.lines and actual.lines else 1.0


def text_similarity(first: str, second: str) -> float:
    """1 - insertions and deletions / total length, in [0, 1], symmetric, of whole texts."""
    if first == second:
        return 1.0
    if max(len(first), len(second)) <= MAX_CHARACTERS:
        return float(Indel.normalized_similarity(first, second))
    lines = [text.split("\n") for text in (first, second)]
    return float(Indel.normalized_similarity(*lines)) if max(map(len, lines)) <= MAX_CHARACTERS else 0.0
