"""Commands rewritten by rules: spellings that should do the same, and small changes that should not.

What a rule means to do is no label: all are executed. Rules work on the text of a command, and on its words where
they can be told by white space outside of quotes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

_LONG = {
    ("head", "-n"): "--lines", ("tail", "-n"): "--lines", ("wc", "-l"): "--lines", ("wc", "-c"): "--bytes",
    ("sort", "-u"): "--unique", ("sort", "-n"): "--numeric-sort", ("sort", "-r"): "--reverse",
    ("uniq", "-c"): "--count",
    ("grep", "-c"): "--count", ("grep", "-i"): "--ignore-case", ("grep", "-v"): "--invert-match",
    ("grep", "-r"): "--recursive", ("grep", "-n"): "--line-number", ("grep", "-l"): "--files-with-matches",
    ("rm", "-r"): "--recursive", ("cp", "-r"): "--recursive", ("mkdir", "-p"): "--parents",
    ("ls", "-A"): "--almost-all",
    ("sed", "-n"): "--quiet", ("sed", "-i"): "--in-place", ("jq", "-r"): "--raw-output", ("cat", "-n"): "--number",
    ("uniq", "-d"): "--repeated", ("grep", "-h"): "--no-filename", ("tar", "-cf"): "--create --file",
}  # fmt: skip
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_FILE = re.compile(
    r"(?<![\w./*'-])((?:[\w-]+/)*[\w-]+\.(?:txt|log|csv|tsv|json|jsonl|md|py|c|h|ini|cfg|env|conf|yaml|sh))\b(?![\w/*'])"
)
_QUOTED = re.compile(r"'([^'\"$`\\!]*)'")
_NUMBER = re.compile(r"(?<![\w.:-])(\d+)(?![\w.:])")
Rule = Callable[[str, random.Random], str | None]


def rewritten(command: str, seed: str) -> Iterator[tuple[str, str]]:
    """(kind, command) by every rule that has something to change, each once."""
    draw = random.Random(f"{seed}/{command}")
    seen = {command}
    for kind, rule in (*SPELLINGS.items(), *CHANGES.items()):
        found = rule(command, draw)
        if found is not None and found not in seen:
            seen.add(found)
            yield kind, found


def _sub(
    pattern: re.Pattern[str], make: Callable[[re.Match[str]], str], command: str, draw: random.Random
) -> str | None:
    """One of the matches, drawn, written anew; None where there is none. Here-documents are left alone."""
    matches = [] if "<<" in command else list(pattern.finditer(command))
    if not matches:
        return None
    found = draw.choice(matches)
    return command[: found.start()] + make(found) + command[found.end() :]


def _long_options(command: str, _: random.Random) -> str | None:
    words = _WORD.findall(command)
    if "<<" in command or "\n" in command or " ".join(words) != command:
        return None
    tool = ""
    for at, word in enumerate(words):
        if at == 0 or words[at - 1] in ("|", "&&", ";", "("):
            tool = word
        elif (tool, word) in _LONG:
            long = _LONG[tool, word]
            takes = tool in ("head", "tail") and at + 1 < len(words)
            return " ".join([*words[:at], f"{long}={words[at + 1]}" if takes else long, *words[at + 1 + takes :]])
    return None


def _bundled(command: str, draw: random.Random) -> str | None:
    return _sub(
        re.compile(r"(?<= )-([a-zA-Z]{2,3})(?= )"), lambda m: " ".join(f"-{one}" for one in m[1]), command, draw
    )


def _reordered_bundle(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"(?<= )-([a-zA-Z]{2,4})(?= )"), lambda m: f"-{m[1][::-1]}", command, draw)


def _double_quotes(command: str, draw: random.Random) -> str | None:
    return _sub(_QUOTED, lambda m: f'"{m[1]}"', command, draw)


def _absolute(command: str, draw: random.Random) -> str | None:
    return _sub(_FILE, lambda m: f"/box/{m[1]}", command, draw)


def _home(command: str, draw: random.Random) -> str | None:
    return _sub(_FILE, lambda m: f"~/{m[1]}", command, draw)


def _dotted(command: str, draw: random.Random) -> str | None:
    return _sub(_FILE, lambda m: f"./{m[1]}", command, draw)


def _from_standard_input(command: str, _: random.Random) -> str | None:
    """`tool ... FILE` as `cat FILE | tool ...`, where the first command ends in its only file."""
    first, bar, rest = command.partition(" | ")
    found = re.fullmatch(
        r"((?:grep|cut|sort|awk|sed|head|tail|wc|uniq|jq) (?!.*-[iroaH]\b).*?) (?:< )?((?:[\w-]+/)*[\w-]+\.\w+)", first
    )
    return None if found is None or "&&" in first or "\n" in command else f"cat {found[2]} | {found[1]}{bar}{rest}"


def _redirected(command: str, _: random.Random) -> str | None:
    first, bar, rest = command.partition(" | ")
    found = re.fullmatch(
        r"((?:grep|cut|sort|awk|sed|head|tail|jq) (?!.*-[iroaH]\b)[^>]*?) ((?:[\w-]+/)*[\w-]+\.\w+)", first
    )
    return None if found is None or "&&" in first or "\n" in command else f"{found[1]} < {found[2]}{bar}{rest}"


def _subshell(command: str, _: random.Random) -> str | None:
    return None if "\n" in command or "cd " in command else f"({command})"


def _through_bash(command: str, _: random.Random) -> str | None:
    return None if "'" in command or "\n" in command or "cd " in command else f"bash -c '{command}'"


def _spaced(command: str, _: random.Random) -> str | None:
    changed = command.replace(" | ", "|").replace(" && ", "  &&  ") if "<<" not in command else command
    return changed + "   # as asked"


def _on_two_lines(command: str, _: random.Random) -> str | None:
    return command.replace(" | ", " | \\\n  ", 1) if " | " in command and "<<" not in command else None


def _number_changed(command: str, draw: random.Random) -> str | None:
    return _sub(_NUMBER, lambda m: str(int(m[1]) + draw.choice((1, -1)) if int(m[1]) else 1), command, draw)


def _appended(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"(?<![>0-9&])>(?![>=&]) ?(?=[a-z])"), lambda _: ">> ", command, draw)


def _overwritten(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r">> ?"), lambda _: "> ", command, draw) or (
        command.replace(">>", ">", 1) if ">>" in command else None
    )


def _letter_dropped(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r" -([a-zA-Z]+)(?= )"), lambda m: f" -{m[1][1:]}" if len(m[1]) > 1 else "", command, draw)


def _letter_added(command: str, draw: random.Random) -> str | None:
    letters = {
        "grep": "ivwnc",
        "sort": "rnu",
        "ls": "ar",
        "uniq": "ci",
        "wc": "w",
        "head": "q",
        "sed": "nE",
        "cat": "ns",
    }
    pattern = re.compile(rf"(?<![\w-])({'|'.join(letters)}) ")
    return _sub(pattern, lambda m: f"{m[1]} -{draw.choice(letters[m[1]])} ", command, draw)


def _other_end(command: str, draw: random.Random) -> str | None:
    swapped = {"head": "tail", "tail": "head", "first": "last", "min_by": "max_by"}
    return _sub(re.compile(rf"\b({'|'.join(swapped)})\b"), lambda m: swapped[m[1]], command, draw)


def _operator(command: str, draw: random.Random) -> str | None:
    swapped = {" >= ": " > ", " > ": " >= ", " < ": " <= ", " == ": " != ", " && ": " || ", " <= ": " < "}
    pattern = re.compile("|".join(map(re.escape, swapped)))
    return _sub(pattern, lambda m: swapped[m[0]], command, draw) if "'" in command or "&&" in command else None


def _case_of_pattern(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"(?<=[' /^\"])([A-Z]{3,})(?=[' /:\"])"), lambda m: m[1].capitalize(), command, draw)


def _stage_dropped(command: str, draw: random.Random) -> str | None:
    parts = command.split(" | ")
    if len(parts) < 2 or "\n" in command:
        return None
    del parts[draw.randrange(1, len(parts))]
    return " | ".join(parts)


def _stages_swapped(command: str, _: random.Random) -> str | None:
    parts = command.split(" | ")
    return None if len(parts) < 3 else " | ".join([*parts[:-2], parts[-1], parts[-2]])


def _steps_swapped(command: str, _: random.Random) -> str | None:
    mark = "\n" if "\n" in command else " && "
    parts = command.split(mark)
    return None if len(parts) != 2 or "<<" in command else f"{parts[1]}{mark}{parts[0]}"


def _in_place_dropped(command: str, _: random.Random) -> str | None:
    return command.replace(" -i ", " ", 1) if "sed -i " in command else None


def _flag_dropped(command: str, _: random.Random) -> str | None:
    return command.replace("/g'", "/'", 1) if "/g'" in command else None


def _glob_widened(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"\*\.\w+"), lambda _: "*", command, draw)


def _glob_one(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"\*(?=[./])"), lambda _: "?*", command, draw) or _sub(
        re.compile(r"\*(?=\.)"), lambda _: "[a-m]*", command, draw
    )


def _expanded(command: str, draw: random.Random) -> str | None:
    """Single quotes around `$` as double ones, where the shell takes what the tool should have got."""
    return _sub(re.compile(r"'([^'\"]*\$[^'\"]*)'"), lambda m: f'"{m[1]}"', command, draw)


def _unquoted(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"'([^'\"|;&<>]*)'"), lambda m: m[1], command, draw)


def _other_file(command: str, draw: random.Random) -> str | None:
    def make(found: re.Match[str]) -> str:
        stem, _, ending = found[1].rpartition(".")
        return f"{stem}s.{ending}" if draw.random() < 0.5 else f"{stem[:-1]}.{ending}"

    return _sub(_FILE, make, command, draw)


def _one_level(command: str, draw: random.Random) -> str | None:
    return _sub(re.compile(r"find (\S+)"), lambda m: f"find {m[1]} -maxdepth 1", command, draw)


SPELLINGS: dict[str, Rule] = {
    "long_option": _long_options, "options_apart": _bundled, "options_reordered": _reordered_bundle,
    "double_quotes": _double_quotes, "absolute_path": _absolute, "home_path": _home, "dotted_path": _dotted,
    "cat_pipe": _from_standard_input, "standard_input": _redirected, "subshell": _subshell, "bash_c": _through_bash,
    "white_space": _spaced, "two_lines": _on_two_lines,
}  # fmt: skip
CHANGES: dict[str, Rule] = {
    "number": _number_changed, "append_for_overwrite": _appended, "overwrite_for_append": _overwritten,
    "option_dropped": _letter_dropped, "option_added": _letter_added, "other_end": _other_end, "operator": _operator,
    "case_of_pattern": _case_of_pattern, "stage_dropped": _stage_dropped, "stages_swapped": _stages_swapped,
    "steps_swapped": _steps_swapped, "in_place_dropped": _in_place_dropped, "flag_dropped": _flag_dropped,
    "glob_widened": _glob_widened, "glob_narrowed": _glob_one, "expanded_by_shell": _expanded, "unquoted": _unquoted,
    "similar_path": _other_file, "one_level": _one_level,
}  # fmt: skip
