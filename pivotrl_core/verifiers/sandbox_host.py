"""What this machine offers to the sandbox, and the command line that starts one on it.

The layers, from outside: joining the run's control groups (where they can be made), dropping from root to an
unprivileged user, bubblewrap with namespaces of its own for everything, the resource limits, the command. Commands are
lists, never shell text of ours with foreign words in it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pivotrl_core.verifiers.cgroups import Group
from pivotrl_core.verifiers.watcher import ANNOUNCE

UNPRIVILEGED_ID = 65534
SYSTEM_PYTHON = Path("/usr/bin/python3")
BOX = "/box"
"""The working folder inside."""
OUTSIDE = ("/tmp", "/dev/shm")  # noqa: S108 - inside the sandbox: its own, in memory
"""Other places inside that can be written to; empty at the start."""
_BASH = ("/bin/bash", "--norc", "--noprofile", "-c")
_JOIN = """
count=$1; shift
while [ "$count" -gt 0 ]; do echo 0 > "$1" || exit 125; shift; count=$((count - 1)); done
exec "$@"
"""
# Unpacks the workspace, says so with one byte on standard output, and waits until the host holds the folder open: what
# the command leaves there is read through that, after all processes are dead.
_UNPACK = """
image=$1; shift
umask 022
tar -xf - --no-same-owner <&"$image" || exit 125
exec {image}<&-
echo; read -r _ || exit 125
exec < /dev/null
"""
# The first process inside: it waits for whatever is orphaned there, and says nothing of its own, such as "Killed".
_SUPERVISE = """
exec {errors}>&2 2>/dev/null
"$@" 2>&"$errors" {errors}>&-
exit $?
"""


class Stop(StrEnum):
    """Why a run ended."""

    EXITED = "exited"
    SIGNAL = "signal"
    TIME_LIMIT = "time limit"
    OUTPUT_LIMIT = "output limit"
    MEMORY_LIMIT = "memory limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Caps of one run.

    CPU time, the size of one file and the number of open files hold per process, all others for the run as a whole;
    memory holds for both (`cgroups.py`), or per process alone where control groups cannot be made.
    """

    wall_seconds: float = 10.0
    cpu_seconds: int = 10
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 32 * 2**20
    folder_bytes: int = 64 * 2**20
    processes: int = 32
    open_files: int = 128
    output_bytes: int = 64 * 2**10
    result_files: int = 10_000
    result_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Host:
    """Programs of this machine, the uid to drop to (None: stay), the interpreter and the folders it needs."""

    bwrap: str
    drop_to: int | None
    python: str
    python_folders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Descriptors that a run inherits: pipes of the watcher and for bwrap's status, files, a filter, an image.

    `filter` is the program over system calls, `image` the workspace; None where there is none.
    """

    watcher: int
    status: int
    files: Mapping[str, int]
    filter: int | None = None
    image: int | None = None


def possible_hosts() -> Iterator[Host]:
    """Ways of running here, the best one first: unprivileged where the caller is root, with the system's Python."""
    bwrap = shutil.which("bwrap")
    if sys.platform != "linux" or bwrap is None or not Path("/bin/bash").exists():
        return
    can_drop = os.geteuid() == 0 and shutil.which("setpriv") is not None
    for drop_to in (UNPRIVILEGED_ID, None) if can_drop else (None,):
        for python, folders in _interpreters():
            yield Host(bwrap, drop_to, python, folders)


def _interpreters() -> list[tuple[str, tuple[str, ...]]]:
    """The system's Python where there is one, then the one running us, with its prefix to bind read-only."""
    found: list[tuple[str, tuple[str, ...]]] = []
    if SYSTEM_PYTHON.exists():
        found.append((str(SYSTEM_PYTHON), ()))
    prefix = Path(sys.base_prefix).resolve()
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    found.append((str(executable), (str(prefix),)))
    return found


def command_line(host: Host, command: Sequence[str], wiring: Wiring, limits: SandboxLimits, group: Group) -> list[str]:
    """The whole line, from the first program on the host to the command inside."""
    entrances = [str(path) for path in group.entrances]
    line = [*_BASH, ANNOUNCE + _JOIN, "bash", str(wiring.watcher), str(len(entrances)), *entrances]
    if host.drop_to is not None:
        drop = str(host.drop_to)
        line += ["setpriv", f"--reuid={drop}", f"--regid={drop}", "--clear-groups", "--"]
    line += [*_bubblewrap(host, wiring, limits), "--"]
    image = [str(wiring.image)] if wiring.image is not None else []
    line += [*_BASH, (_UNPACK if image else "") + _SUPERVISE, "bash", *image]
    # The limits are set inside the user namespace, so that the process count is the sandbox's own, not the user's.
    line += ["/usr/bin/prlimit", f"--as={limits.memory_bytes}", f"--fsize={limits.file_bytes}", "--core=0"]
    line += [f"--cpu={limits.cpu_seconds}", f"--nofile={limits.open_files}", f"--nproc={limits.processes}", "--"]
    return [*line, *command]


def _bubblewrap(host: Host, wiring: Wiring, limits: SandboxLimits) -> list[str]:
    line = [host.bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    # bubblewrap's own first process is never waited for: it would stay a zombie wherever nobody adopts orphans.
    line += ["--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox", "--uid", "1000", "--gid", "1000"]
    line += ["--json-status-fd", str(wiring.status), "--ro-bind", "/usr", "/usr"]
    if wiring.filter is not None:
        line += ["--seccomp", str(wiring.filter)]
    for name in ("bin", "lib", "lib64", "sbin"):
        # Merged-/usr systems have links here; on others these are folders of their own.
        path = Path("/", name)
        if path.is_symlink():
            line += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            line += ["--ro-bind", str(path), str(path)]
    for path_text in ("/etc/alternatives", "/etc/ld.so.cache"):
        line += ["--ro-bind-try", path_text, path_text]
    for folder in host.python_folders:
        line += ["--ro-bind", folder, folder]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for folder in (BOX, *OUTSIDE):
        line += ["--size", str(limits.folder_bytes), "--tmpfs", folder]
    for name, descriptor in wiring.files.items():
        line += ["--file", str(descriptor), _inside_box(name)]
    line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", BOX, "--clearenv"]
    for variable, value in {"PATH": "/usr/bin:/bin", "HOME": BOX, "LANG": "C.UTF-8"}.items():
        line += ["--setenv", variable, value]
    return line


def _inside_box(name: str) -> str:
    path = Path(BOX, name)
    if not path.is_relative_to(BOX) or ".." in path.parts or path == Path(BOX) or "\0" in name:
        raise ValueError(f"file name {name!r} leaves the sandbox's folder; use a relative path")
    return str(path)
