"""A minimal sandbox for model-written code: bubblewrap (Linux namespaces) and resource limits, one call per run.

Inside: no network; `/usr` read-only; nothing of the home folder, `/etc` secrets or other processes; `/box` (the working
folder, holding the given files) and `/tmp` are memory file systems of a fixed size that vanish with the run. The whole
process tree shares one PID namespace, so killing its first process kills every daemon too.

Not here: cgroup accounting (memory is limited per process, and their number is limited, so the total is bounded by the
product), system-call filters, reuse of a running sandbox. Code is never run without the sandbox: where it cannot start,
`available()` says why and `run` raises.

RLIMIT_NPROC does not bind root; a root caller therefore drops to an unprivileged uid first, and where that cannot be
done `SandboxResult.unenforced` names the limit.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.verifiers.capture import capture

_UNPRIVILEGED_ID = 65534
_SYSTEM_PYTHON = Path("/usr/bin/python3")
_REMEDY = "Install bubblewrap (Debian: apt-get install bubblewrap) and allow unprivileged user namespaces."


class Stop(StrEnum):
    """Why a run ended."""

    EXITED = "exited"
    SIGNAL = "signal"
    TIME_LIMIT = "time limit"
    OUTPUT_LIMIT = "output limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one run; the memory and CPU caps hold per process, all others for the run as a whole."""

    wall_seconds: float = 10.0
    cpu_seconds: int = 10
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 32 * 2**20
    processes: int = 32
    open_files: int = 128
    output_bytes: int = 64 * 2**10


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What one run did. `exit_status` is None where we killed it; output is cut at `Limits.output_bytes` each."""

    exit_status: int | None
    stdout: str
    stderr: str
    stop: Stop
    unenforced: tuple[str, ...] = ()

    @property
    def timed_out(self) -> bool:
        """True where the wall-clock limit ended the run."""
        return self.stop is Stop.TIME_LIMIT


@dataclass(frozen=True, slots=True)
class _Host:
    """What this machine offers: the bwrap program, the uid to drop to, the interpreter and the folders it needs."""

    bwrap: str
    drop_to: int | None
    python: str
    python_folders: tuple[str, ...]


def run(command: Sequence[str], files: Mapping[str, str | bytes], limits: Limits | None = None) -> SandboxResult:
    """Run `command` in a fresh sandbox whose working folder holds `files` (relative path -> content).

    Raises:
        SandboxUnavailableError: bubblewrap is missing, or the sandbox itself could not start.
    """
    host = _host()
    if isinstance(host, str):
        raise SandboxUnavailableError(f"The sandbox cannot run: {host} {_REMEDY}")
    return _run(host, command, files, limits or Limits())


def run_python(files: Mapping[str, str | bytes], script: str, limits: Limits | None = None) -> SandboxResult:
    """Run `script` (one of `files`) with the sandbox's Python: standard library only, isolated from site packages."""
    host = _host()
    python = "" if isinstance(host, str) else host.python
    return run([python, "-I", "-S", "-B", script], files, limits)


def available() -> str | None:
    """None where the sandbox works on this machine (probed once), else one sentence that says why it does not."""
    host = _host()
    return host if isinstance(host, str) else None


@functools.cache
def _host() -> _Host | str:
    """Find the first way of running that passes a probe: unprivileged where the caller is root, else as the caller."""
    bwrap = shutil.which("bwrap")
    if sys.platform != "linux" or bwrap is None:
        return "the program bwrap was not found."
    drops = (_UNPRIVILEGED_ID, None) if os.geteuid() == 0 else (None,)
    reason = ""
    for drop_to in drops:
        for python, folders in _interpreters():
            host = _Host(bwrap, drop_to, python, folders)
            try:
                result = _run(host, [python, "-I", "-S", "-c", "import json, subprocess, math"], {}, Limits())
            except (SandboxUnavailableError, OSError) as error:
                reason = f"a probe failed ({str(error)[-300:].strip()})."
                continue
            if result.exit_status == 0:
                return host
            reason = f"the probe ended with {result.exit_status}: {result.stderr[-300:].strip()}"
    return reason


def _interpreters() -> list[tuple[str, tuple[str, ...]]]:
    """The system's Python where there is one, then the one running us, with its prefix to bind read-only."""
    found: list[tuple[str, tuple[str, ...]]] = []
    if _SYSTEM_PYTHON.exists():
        found.append((str(_SYSTEM_PYTHON), ()))
    prefix = Path(sys.base_prefix).resolve()
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    found.append((str(executable), (str(prefix),)))
    return found


def _run(host: _Host, command: Sequence[str], files: Mapping[str, str | bytes], limits: Limits) -> SandboxResult:
    read_status, write_status = os.pipe()
    descriptors = {name: _memory_file(content) for name, content in files.items()}
    try:
        process = subprocess.Popen(
            _command_line(host, command, descriptors, write_status, limits),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(write_status, *descriptors.values()),
            start_new_session=True,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            user=host.drop_to,
            group=host.drop_to,
            extra_groups=None if host.drop_to is None else [],
        )
    except BaseException:
        os.close(read_status)
        raise
    finally:
        for descriptor in (write_status, *descriptors.values()):
            os.close(descriptor)
    captured = capture(process, limits.wall_seconds, limits.output_bytes)
    with os.fdopen(read_status, "r", encoding="utf-8") as status:
        exit_status = _exit_status(status.read())
    stop = Stop.EXITED
    if captured.timed_out or captured.overflowed:
        stop = Stop.TIME_LIMIT if captured.timed_out else Stop.OUTPUT_LIMIT
        exit_status = None
    elif exit_status is None:
        raise SandboxUnavailableError(f"The sandbox did not start: {captured.stderr[-500:].strip()} {_REMEDY}")
    elif exit_status > 128 and exit_status - 128 in signal.valid_signals():
        stop = Stop.SIGNAL
    unenforced = ("processes",) if os.geteuid() == 0 and host.drop_to is None else ()
    return SandboxResult(exit_status, captured.stdout, captured.stderr, stop, unenforced)


def _exit_status(status: str) -> int | None:
    """The exit code that bwrap reported; None where the command never started: that is our failure, not the code's."""
    for line in status.splitlines():
        code = json.loads(line).get("exit-code")
        if code is not None:
            return int(code)
    return None


def _memory_file(content: str | bytes) -> int:
    """A descriptor, at its start, of an anonymous file: no temporary folder on the host to clean or to protect."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    descriptor = os.memfd_create("sandbox-file")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _command_line(
    host: _Host, command: Sequence[str], descriptors: Mapping[str, int], status: int, limits: Limits
) -> list[str]:
    line = [host.bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    line += ["--hostname", "sandbox", "--uid", "1000", "--gid", "1000", "--json-status-fd", str(status)]
    line += ["--ro-bind", "/usr", "/usr"]
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
    for folder in ("/tmp", "/box", "/dev/shm"):  # noqa: S108 - inside the sandbox: its own, in memory
        line += ["--size", str(2 * limits.file_bytes), "--tmpfs", folder]
    for name, descriptor in descriptors.items():
        line += ["--file", str(descriptor), _inside_box(name)]
    line += [
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
        "--chdir",
        "/box",
        "--clearenv",
        "--setenv",
        "PATH",
        "/usr/bin:/bin",
    ]
    line += ["--setenv", "HOME", "/box", "--setenv", "LANG", "C.UTF-8", "--"]
    # The limits are set inside the user namespace, so that the process count is the sandbox's own, not the user's.
    line += ["/usr/bin/prlimit", f"--as={limits.memory_bytes}", f"--fsize={limits.file_bytes}", "--core=0"]
    line += [f"--cpu={limits.cpu_seconds}", f"--nofile={limits.open_files}", f"--nproc={limits.processes}", "--"]
    return [*line, *command]


def _inside_box(name: str) -> str:
    path = Path("/box", name)
    if not path.is_relative_to("/box") or ".." in path.parts or path == Path("/box"):
        raise ValueError(f"file name {name!r} leaves the sandbox's folder; use a relative path")
    return str(path)
