"""What differs between two runs of a command for no reason of the command's, written out of what it said and left.

| volatile | written as |
|---|---|
| a point of time within a run: ISO 8601, `date`, `ls -l`, seconds since 1970 | `<now 0-0-0a0:0:0>`, as it is spelt |
| the day of the run, ISO 8601 | `<today>` |
| a duration that the run may have measured, in what it said: `0.03s`, `1.2 seconds`, `0m0.004s` | `<duration>` |
| names of `mktemp` and Python's `tempfile` | `<temporary>` |
| `at 0x7f...`, an object's address | `at <address>` |
| `bash: line 3:` | `bash:` |

Times are those of the run alone: a date in a file that was there before stays what it is. UTC, as in the sandbox. No
duration is longer than the run, and one that stands in the workspace or in the script was not measured; in files that a
run leaves durations stay, so that a script that writes its own does not repeat itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_SLACK_SECONDS = 2.0
_FIXED = (
    (re.compile(r"/tmp/tmp(?:\.\w{6,12}|[a-z0-9_]{8})\b"), "<temporary>"),  # noqa: S108 - text, no place
    (re.compile(r"\bat 0x[0-9a-f]+"), "at <address>"),
    (re.compile(r"^(?:/bin/|/usr/bin/)?bash: (?:eval: )?line \d+: ", re.MULTILINE), "bash: "),
)
_DURATION = re.compile(r"\b(?:(\d+)m)?(\d+\.\d+) ?(s|ms|us|µs|ns|secs?|seconds?)\b")
_SECONDS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_MAX_MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """When a run began and ended, in seconds since 1970."""

    start: float
    end: float


def without_durations(text: str, time: RunTime, stands: Callable[[str], bool]) -> str:
    """The text without durations of at most the run's own, but for those of which `stands` says that they are given."""

    def written(found: re.Match[str]) -> str:
        seconds = 60 * float(found[1] or 0) + float(found[2]) * _SECONDS.get(found[3], 1.0)
        return found[0] if seconds > time.end - time.start or stands(found[0]) else "<duration>"

    return _DURATION.sub(written, text)


def without_volatile(text: str, time: RunTime) -> str:
    """The text with what is volatile written as the table says, but for durations."""
    for pattern, name in _FIXED:
        text = pattern.sub(name, text)
    first, last = time.start - _SLACK_SECONDS, time.end + _SLACK_SECONDS
    text = _now(first, last).sub(lambda found: _shape(found[0]), text)
    days = {datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d") for seconds in (first, last)}
    for day in days:
        text = text.replace(day, "<today>")
    return re.sub(r"\b\d{10}(?:\.\d+)?\b", lambda found: _epoch(found[0], first, last), text)


def _epoch(text: str, first: float, last: float) -> str:
    return _shape(text) if first <= float(text) <= last else text


def _shape(text: str) -> str:
    """How a point of time is spelt, without what it says: `date` and `date +%s` tell other things."""
    return f"<now {re.sub('[0-9]+', '0', re.sub('[A-Za-z]+', 'a', ' '.join(text.split())))}>"


def _now(first: float, last: float) -> re.Pattern[str]:
    """Every way of writing a minute between two times, with or without seconds and a zone."""
    minute = datetime.fromtimestamp(first, UTC).replace(second=0, microsecond=0)
    count = min(_MAX_MINUTES, int((last - minute.timestamp()) // 60) + 1)
    forms: list[str] = []
    for moment in (minute + timedelta(minutes=index) for index in range(count)):
        clock = moment.strftime("%H:%M")
        forms.append(rf"{moment:%Y-%m-%d}[T ]{clock}(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?")
        day = rf"{moment:%b} +{moment.day}"
        forms.append(rf"(?:{moment:%a} )?{day} {clock}(?::\d\d(?:\.\d+)?)?(?: UTC)?(?: {moment.year})?")
        forms.append(rf"{moment:%a} {day} {moment:%I:%M}:\d\d {moment:%p} UTC {moment.year}")
    return re.compile("|".join(forms))
