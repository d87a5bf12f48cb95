"""What commands do to a workspace: files, output, exit status and the shell that they leave, as digests.

Both sides start from copies of one workspace, in sandboxes of their own, with the same clock of git and the same hash
seed of Python. What is volatile is written out first (`volatile.py`). Left out: times and owners of files, caches of
Python and pytest, git's index (it holds times; what is staged is told instead) and its logs, variables that bash counts
up. Where `./a`, `/box/a` and `a` name one file, what is shown may say either. Variables that a script leaves, and files
in `/tmp` and `/dev/shm`, do no harm beside the expert's own; those of the expert must be there. Two effects say
something about two actions only where the expert's is `telling`: it was not cut by a limit, every program was found,
nothing runs on in the background, and something was shown or changed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath

from pivotrl_core.types import Json, canonical_json
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.sandbox import SandboxLimits, SandboxResult, Stop
from pivotrl_core.verifiers.volatile import RunTime, without_durations, without_volatile
from pivotrl_core.verifiers.workspace import Node, NodeKind, Tree, Workspace

MAX_SCRIPT_BYTES = 100_000
_CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")
_SEPARATOR = "\x1e--- pivotrl ---\x1e"
# Errors go where output goes, as on a terminal. The shell is told before and after, whatever the script does to end it.
_RUNNER = """
export GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z PYTHONHASHSEED=0 TERM=dumb
exec 2>&1 {_report}>&1
_say='{ pwd; [ -d ~/.git ] && git -C ~ ls-files -s
_seen=(/proc/[0-9]*); echo "${#_seen[@]} processes"; unset _seen; umask; ulimit -a; echo "$-"; jobs; alias; declare -f
declare -p; printf "%s" "$1"; } >&"$_report"'
eval "$_say"
trap '_status=$?; printf "%s" "$1" >&"$_report"; eval "$_say"; exit $_status' EXIT
eval "$2"
"""
_COUNTED = re.compile(
    r"^declare -\S+ (?:_|_status|BASH\w*|EPOCH\w*|S?RANDOM|SECONDS|PPID|PIPESTATUS|LINENO|FUNCNAME|OLDPWD)\b.*\n?",
    re.MULTILINE,
)
_PROCESSES = re.compile(r"^(\d+) processes$", re.MULTILINE)
_JOB = re.compile(r"^\[\d+\][ +-]+(\w+).*", re.MULTILINE)
_MISSING = re.compile(r"command not found|No module named|Could not resolve host|Network is unreachable")


_VARIABLE = re.compile(r"^declare -- (\w+)=(?:.*\n(?!declare ))*.*\n?", re.MULTILINE)
_OF_THE_SHELL = re.compile(
    r"LC_|LANG|BASH|HIST|PS\d|PROMPT_|POSIX|IFS|CDPATH|ENV$|TMOUT|OPT(?:ARG|IND|ERR)|GLOBIGNORE|FIGNORE|EXECIGNORE|TIMEFORMAT"
)
"""Names of variables that change what the shell itself does; they count as part of it."""
_MAX_VARIABLES = _MAX_OUTSIDE = 50
_ROOM_FILES, _ROOM_BYTES = 1_000, 8 * 2**20
_HERE = re.compile(r"(?<![\w./~*?-])(?:\./+|/box/)(?=[\w.])")


@dataclass(frozen=True, slots=True)
class Effect:
    """What one run did, by digests.

    Attributes:
        files: of all files, folders and links that were made, changed or removed, but for `outside`.
        output: of what was printed.
        lines: of its lines in the order of their text.
        status: exit status.
        shell: of folder, variables, functions and jobs that the shell has at the end, but for `variables`.
        variables: by name, of plain variables that were not there before.
        outside: by path, of what is left in `/tmp` and `/dev/shm`.
        cut: the limit that ended it, or empty.
        telling: whether equality with this effect says anything.
        unordered: whether the order of lines says nothing: it follows that in which files were made.
    """

    files: str
    output: str
    lines: str
    status: int
    shell: str
    variables: Mapping[str, str]
    outside: Mapping[str, str]
    cut: str
    telling: bool
    unordered: bool = False

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


def effect_from_json(value: Mapping[str, Json]) -> Effect:
    """Inverse of `Effect.to_json`."""
    return Effect(**value)


def difference(expected: Effect, actual: Effect) -> str:
    """The first part in which two effects differ, or empty."""
    output = "lines" if expected.unordered else "output"
    for name in ("cut", "files", output, "status", "shell"):
        if getattr(expected, name) != getattr(actual, name):
            return "output" if name == "lines" else name
    if _is_missing(expected.outside, actual.outside):
        return "files"
    return "shell" if _is_missing(expected.variables, actual.variables) else ""


def _is_missing(expected: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    """Whether something of the expert's is not there, or another."""
    return any(actual.get(name) != value for name, value in expected.items())


def is_executable(script: str) -> bool:
    """Whether a script can be handed to a shell at all."""
    return "\0" not in script and len(script.encode("utf-8", "surrogatepass")) <= MAX_SCRIPT_BYTES


def run_script(
    script: str, workspace: Workspace, limits: SandboxLimits, clock: Callable[[], float] = time.time
) -> Effect:
    """Run a script in a copy of a workspace.

    Raises:
        SandboxUnavailableError: there is no sandbox on this machine; nothing is run without one.
    """
    # Half surrogate pairs reach the shell as the bytes that UTF-8 would have for them.
    argument = script.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    start = clock()
    command = ["/bin/bash", "--norc", "--noprofile", "-c", _RUNNER, "bash", _SEPARATOR, argument]
    result = sandbox.run_in_workspace(command, workspace, _with_room(limits, workspace))
    run_time = RunTime(start=start, end=clock())
    before, output, after = _split(result.stdout)
    output = _HERE.sub("", _said(output, script, workspace, run_time)).rstrip()
    tree = _whole(result)
    changes = _changes(workspace.tree, tree, run_time)
    cut = "" if result.stop in (Stop.EXITED, Stop.SIGNAL) else str(result.stop)
    cut = cut or ("" if tree.complete else "files limit")
    found = result.exit_status not in (126, 127) and _MISSING.search(output) is None
    output = "" if cut else output  # where it was cut says nothing
    happened = bool(output) or bool(changes) or before != after
    shell, variables = _new_variables(before, after)
    changes, outside = _outside(changes)
    return Effect(
        files=_digest(changes),
        output=_digest(output),
        lines=_digest("\n".join(sorted(output.split("\n")))),
        status=-1 if result.exit_status is None else result.exit_status,
        shell=_digest(shell),
        variables=variables,
        outside=outside,
        cut=cut,
        telling=not cut and found and happened and _processes(after) <= _processes(before),
    )


def _with_room(limits: SandboxLimits, workspace: Workspace) -> SandboxLimits:
    """SandboxLimits under which what the workspace itself holds can be read back, with some more beside it."""
    nodes = workspace.tree.nodes
    size = sum(len(node.content) for node in nodes.values())
    files, read = max(limits.result_files, len(nodes) + _ROOM_FILES), max(limits.result_bytes, size + _ROOM_BYTES)
    return replace(limits, result_files=files, result_bytes=read)


def _said(output: str, script: str, workspace: Workspace, run_time: RunTime) -> str:
    """What was printed without what is volatile."""

    def stands(duration: str) -> bool:
        form = re.compile(rb"(?<![\d.])" + re.escape(duration.encode()))
        places = (script.encode("utf-8", "surrogatepass"), *(node.content for node in workspace.tree.nodes.values()))
        return any(form.search(place) for place in places)

    return without_volatile(without_durations(output, run_time, functools.cache(stands)), run_time)


def _whole(result: SandboxResult) -> Tree:
    """What a run left in the working folder and, under absolute paths, outside of it."""
    if result.tree is None or result.outside is None:
        return Tree({}, complete=False)
    nodes = {**result.tree.nodes, **result.outside.nodes}
    return Tree(nodes, result.tree.complete and result.outside.complete)


@dataclass(frozen=True, slots=True)
class Left:
    """What a script that ended well left: all nodes, paths of those that are new, other or gone, and what it printed.

    Caches do not count, and the output is without what is volatile. `outside` is a digest of what is left in `/tmp`.
    """

    nodes: Mapping[str, Node]
    changed: frozenset[str]
    output: str
    outside: str


def tree_after(
    script: str, workspace: Workspace, limits: SandboxLimits, clock: Callable[[], float] = time.time
) -> Left | None:
    """The tree that a script leaves, or None where it fails, is cut short, or leaves more than can be read.

    Raises:
        SandboxUnavailableError: there is no sandbox on this machine; nothing is run without one.
    """
    argument = script.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    start = clock()
    command = ["/bin/bash", "--norc", "--noprofile", "-c", 'exec 2>&1; eval "$1"', "bash", argument]
    result = sandbox.run_in_workspace(command, workspace, _with_room(limits, workspace))
    whole = _whole(result)
    if result.stop is not Stop.EXITED or result.exit_status != 0 or result.tree is None or not whole.complete:
        return None
    run_time = RunTime(start=start, end=clock())
    before, after = workspace.tree.nodes, result.tree.nodes
    paths = before.keys() | after.keys()
    changed = frozenset(path for path in paths if _counts(path) and _other(before.get(path), after.get(path)))
    nodes = {path: node for path, node in after.items() if _counts(path) or path in before}
    outside = _changes(Tree({}), Tree(result.outside.nodes if result.outside else {}), run_time)
    return Left(nodes, changed, _said(result.stdout, script, workspace, run_time).strip(), _digest(outside))


def _new_variables(before: str, after: str) -> tuple[str, dict[str, str]]:
    """What the shell says at the end without plain variables that are new, and a digest of each of those."""
    known = {found[1] for found in _VARIABLE.finditer(before)}
    new = [one for one in _VARIABLE.finditer(after) if one[1] not in known and not _OF_THE_SHELL.match(one[1])]
    if len(new) > _MAX_VARIABLES:
        return after, {}
    for one in new:
        after = after.replace(one[0], "", 1)
    return after, {one[1]: _digest(one[0].rstrip("\n")) for one in new}


def _split(text: str) -> tuple[str, str, str]:
    """(shell before, output, shell after); the shell after is empty where the script did not let it be told."""
    before, _, rest = text.partition(_SEPARATOR)
    parts = rest.rsplit(_SEPARATOR, 2)
    output, after = (parts[0], parts[1]) if len(parts) == 3 else (rest, "")
    return _shell(before), output, _shell(after)


def _shell(text: str) -> str:
    return _JOB.sub(r"[job] \1", _COUNTED.sub("", text))


def _processes(shell: str) -> int:
    """How many processes a shell's report counted: what a script leaves running in the background is among them."""
    found = _PROCESSES.search(shell)
    return int(found[1]) if found else 0


def _changes(before: Tree, after: Tree, run_time: RunTime) -> list[list[Json]]:
    """What is new, other than it was, or gone, in the order of its path; names of `mktemp` say nothing."""
    paths = [path for path in before.nodes.keys() | after.nodes.keys() if _counts(path)]
    changes: list[list[Json]] = [
        [path.startswith("/"), os.fsencode(_named(path, run_time)).hex(), _content(after.nodes.get(path), run_time)]
        for path in paths
        if _other(before.nodes.get(path), after.nodes.get(path))
    ]
    return sorted(changes, key=canonical_json)


def _outside(changes: list[list[Json]]) -> tuple[list[list[Json]], dict[str, str]]:
    """The changes in the working folder, and by path a digest of each outside; all of them where those are many."""
    outside: dict[str, list[Json]] = {}
    for is_outside, name, content in changes:
        if is_outside:
            outside.setdefault(str(name), []).append(content)
    if len(outside) > _MAX_OUTSIDE:
        return changes, {}
    inside = [change for change in changes if not change[0]]
    return inside, {name: _digest(contents) for name, contents in outside.items()}


def _named(path: str, run_time: RunTime) -> str:
    return without_volatile(path, run_time) if path.startswith("/") else path


def _other(before: Node | None, after: Node | None) -> bool:
    """Whether a node is not what it was, its permissions included."""
    return before != after or (before is not None and after is not None and before.permissions != after.permissions)


def _counts(path: str) -> bool:
    parts = PurePosixPath(path).parts
    of_git = parts[0] == ".git" and (parts[1:] == ("index",) or parts[1:2] == ("logs",))
    return not (of_git or any(part in _CACHES for part in parts) or path.endswith(".pyc"))


def _content(node: Node | None, run_time: RunTime) -> list[Json]:
    """A node for its digest: text without what is volatile, other bytes and links as they are; or nothing."""
    if node is None:
        return []
    if node.kind is NodeKind.LINK:  # however the place is spelt
        return [str(node.kind), str(PurePosixPath(os.fsdecode(node.content)))]
    try:
        text = without_volatile(node.content.decode("utf-8"), run_time)
    except UnicodeDecodeError:
        text = hashlib.sha256(node.content).hexdigest()
    return [str(node.kind), text, node.permissions]


def _digest(value: Json) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
