"""Drops: rows that were read and not kept, each with its place, reason and remedy, and counts that add up.

Invariant of a finished report: read = kept + dropped, and dropped = the sum over reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pivotrl_core.errors import DataError, TooManyDropsError
from pivotrl_core.types import Json


class DropReason(StrEnum):
    BROKEN_JSON = "broken_json"
    NOT_UTF8 = "not_utf8"
    OVERSIZED_LINE = "oversized_line"
    TOO_DEEP = "too_deep"
    LONE_SURROGATE = "lone_surrogate"
    UNKNOWN_FORMAT = "unknown_format"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    UNKNOWN_ROLE = "unknown_role"
    UNSUPPORTED_CONTENT = "unsupported_content"
    CALLS_IN_PARTS = "calls_in_parts"
    MISSING_CONTEXT = "missing_context"
    INVALID_TOOL = "invalid_tool"
    BUILT_IN_TOOL = "built_in_tool"
    UNNAMED_TOOL_CALL = "unnamed_tool_call"
    UNKNOWN_TOOL = "unknown_tool"
    UNWRITABLE_NAME = "unwritable_name"
    ARGUMENTS_NOT_JSON = "arguments_not_json"
    OVERSIZED_ARGUMENT = "oversized_argument"
    EMPTY_ASSISTANT_TURN = "empty_assistant_turn"
    NO_ASSISTANT_TURN = "no_assistant_turn"
    ORPHAN_TOOL_RESULT = "orphan_tool_result"
    DUPLICATE_ID = "duplicate_id"
    DUPLICATE_CONTENT = "duplicate_content"
    TOO_LONG = "too_long"


REMEDIES: Mapping[DropReason, str] = {
    DropReason.BROKEN_JSON: "mend the JSON there: one complete value a line or a document, without NaN or infinity",
    DropReason.NOT_UTF8: "save the file as UTF-8",
    DropReason.OVERSIZED_LINE: "split the row: no setting raises the limit",
    DropReason.TOO_DEEP: "flatten the value: rows are read to a bounded depth",
    DropReason.LONE_SURROGATE: "replace the half of a surrogate pair: it is no character and cannot be stored",
    DropReason.UNKNOWN_FORMAT: "bring the row into one of the formats that docs/formats.md lists",
    DropReason.MISSING_FIELD: "add the field",
    DropReason.WRONG_TYPE: "give the field the type that its format asks for",
    DropReason.UNKNOWN_ROLE: "use one of system, developer, user, assistant, tool, function",
    DropReason.UNSUPPORTED_CONTENT: "keep the text parts only: images, audio and files are not read",
    DropReason.CALLS_IN_PARTS: (
        "write calls as OpenAI's tool_calls and results as messages of role tool: Anthropic's blocks are not read"
    ),
    DropReason.MISSING_CONTEXT: "bring the whole conversation in one row: what came before is not in this one",
    DropReason.BUILT_IN_TOOL: "leave the row out, or the tool where nothing calls it: the provider runs it",
    DropReason.INVALID_TOOL: "give each tool a unique name and a JSON schema of type object",
    DropReason.UNNAMED_TOOL_CALL: "name the tool that is called",
    DropReason.UNKNOWN_TOOL: "add the tool to the row's tools, or remove the call",
    DropReason.UNWRITABLE_NAME: "set data.tool_format to hermes, which writes any name, or give the tool a plain name",
    DropReason.ARGUMENTS_NOT_JSON: "write the arguments as a JSON object, or as the text of one",
    DropReason.OVERSIZED_ARGUMENT: "shorten the argument, or raise data.max_argument_bytes",
    DropReason.EMPTY_ASSISTANT_TURN: "remove the turn, or restore its text or its tool calls",
    DropReason.NO_ASSISTANT_TURN: "leave the row out: there is no turn to learn from",
    DropReason.ORPHAN_TOOL_RESULT: "put the call that this result answers before it, with the same id",
    DropReason.DUPLICATE_ID: "give each row of a file an id of its own",
    DropReason.DUPLICATE_CONTENT: "nothing to do: a row with the same turns was kept",
    DropReason.TOO_LONG: "raise data.max_state_tokens or data.max_action_tokens, or leave the row out",
}


@dataclass(frozen=True, slots=True)
class Drop:
    """One dropped row. `line` counts from 1 (in a JSON list: the place in it); `field` is a path inside the row."""

    file: str
    line: int
    reason: DropReason
    field: str = ""
    detail: str = ""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self.reason]

    def to_json(self) -> dict[str, Json]:
        """The drop as plain JSON."""
        return {
            "file": self.file, "line": self.line, "field": self.field,
            "reason": str(self.reason), "detail": self.detail, "remedy": self.remedy,
        }  # fmt: skip

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" + (f" {self.field}" if self.field else "")
        return f"{place}: {self.reason}{f' ({self.detail})' if self.detail else ''}; {self.remedy}"


@dataclass(slots=True)
class DropReport:
    """Counts of one reading of files; filled while rows go by."""

    read: int = 0
    kept: int = 0
    drops: list[Drop] = field(default_factory=list)

    def by_reason(self) -> dict[str, int]:
        """Number of drops per reason, sorted by reason."""
        return dict(sorted(Counter(str(drop.reason) for drop in self.drops).items()))

    @property
    def unusable(self) -> list[Drop]:
        """Drops but for equal rows: of those one was kept, and exports that grow bring all earlier rows each time."""
        return [drop for drop in self.drops if drop.reason is not DropReason.DUPLICATE_CONTENT]

    @property
    def share(self) -> float:
        """Unusable rows as a share of the rows read, in [0, 1]; 0 where nothing was read."""
        return len(self.unusable) / self.read if self.read else 0.0

    def to_json(self) -> dict[str, Json]:
        """Counts and each drop."""
        return {
            "read": self.read, "kept": self.kept, "dropped": len(self.drops), "by_reason": self.by_reason(),
            "drops": [drop.to_json() for drop in self.drops],
        }  # fmt: skip

    def check(self, max_share: float, table: str = "", files: str = "") -> None:
        """Stop where nothing was read, or where more than `max_share` of the rows were unusable.

        Args:
            max_share: in [0, 1].
            table: file that lists the drops, where one has been written.
            files: names of what was read.

        Raises:
            DataError: no row at all.
            TooManyDropsError: the share is above the limit; the message has the counts, the first drops, and where all
                of them are listed.
        """
        if self.read == 0:
            where = f" from {files}" if files else ""
            raise DataError(f"no trajectory row was read{where}; give a file of one JSON object a line, or a JSON list")
        if self.share > max_share:
            first = "\n".join(f"  {drop}" for drop in self.unusable[:5])
            listed = "`pivotrl inspect FILE` lists all of a file" + (f", and {table} has all of them" if table else "")
            raise TooManyDropsError(
                f"{len(self.unusable)} of {self.read} rows are unusable ({self.share:.1%}), the limit is "
                f"{max_share:.1%}; dropped by reason: {self.by_reason()}. Mend the rows or raise data.max_drop_share; "
                f"{listed}. The first ones:\n{first}"
            )
