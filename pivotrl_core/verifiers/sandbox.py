"""A sandbox for model-written code: bubblewrap (Linux namespaces), resource limits and control groups; one per run.

Inside: no network; `/usr` read-only; nothing of the home folder, `/etc` secrets or other processes; `/box` (the working
folder, holding the given files) and `/tmp` are memory file systems of a fixed size that vanish with the run, so nothing
is written on the host. The whole process tree shares one PID namespace, so killing its first process kills every daemon
too. A workspace is unpacked into `/box` inside, and what the command left there is read back when all is dead.

Each run has a sandbox of its own: no state can leak from one action to another. `system_calls.py` says what is refused.
Code is never run without the sandbox: where it cannot start, `available()` says why and `run` raises.

`SandboxResult.unenforced` names what could not be bounded: `memory` of the tree as a whole where no memory group can be
made (each process is bounded all the same, and so is their number), `processes` where there is no group for them and
the caller is root without an unprivileged user to drop to (RLIMIT_NPROC does not bind root). More: docs/sandbox.md.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.verifiers import cgroups
from pivotrl_core.verifiers.capture import Captured, capture
from pivotrl_core.verifiers.sandbox_host import (
    BOX,
    OUTSIDE,
    Host,
    SandboxLimits,
    Stop,
    Wiring,
    command_line,
    possible_hosts,
)
from pivotrl_core.verifiers.system_calls import filter_program
from pivotrl_core.verifiers.watcher import forget, pipe_of_watcher
from pivotrl_core.verifiers.workspace import Tree, Workspace, read_tree

__all__ = ["SandboxLimits", "SandboxResult", "Stop", "available", "run", "run_in_workspace", "run_python"]

_START_SECONDS = 30.0
_DEATH_SECONDS = 5.0
_REMEDY = "Install bubblewrap (Debian: apt-get install bubblewrap) and allow unprivileged user namespaces."


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """What one run did.

    Attributes:
        exit_status: None where we killed it.
        stdout: cut at `SandboxLimits.output_bytes`, as is `stderr`.
        stderr: the other stream.
        stop: why it ended.
        unenforced: limits that this machine could not set (module docstring).
        tree: what lies in the working folder at the end (`run_in_workspace` alone).
        outside: what lies in `/tmp` and `/dev/shm` then, by absolute paths.
        seconds: wall time of the command itself, without the start.
    """

    exit_status: int | None
    stdout: str
    stderr: str
    stop: Stop
    unenforced: tuple[str, ...] = ()
    tree: Tree | None = None
    outside: Tree | None = None
    seconds: float = 0.0

    @property
    def timed_out(self) -> bool:
        """True where the wall-clock limit ended the run."""
        return self.stop is Stop.TIME_LIMIT


def run(command: Sequence[str], files: Mapping[str, str | bytes], limits: SandboxLimits | None = None) -> SandboxResult:
    """Run `command` in a fresh sandbox whose working folder holds `files` (relative path -> content).

    Raises:
        SandboxUnavailableError: bubblewrap is missing, or the sandbox itself could not start.
    """
    return _run(_require_host(), command, files, limits or SandboxLimits(), None)


def run_in_workspace(
    command: Sequence[str],
    workspace: Workspace,
    limits: SandboxLimits | None = None,
) -> SandboxResult:
    """Run `command` in a fresh sandbox whose working folder is a copy of `workspace`, and read the folder back.

    Raises:
        SandboxUnavailableError: as `run` does.
    """
    return _run(_require_host(), command, {}, limits or SandboxLimits(), workspace)


def run_python(files: Mapping[str, str | bytes], script: str, limits: SandboxLimits | None = None) -> SandboxResult:
    """Run `script` (one of `files`) with the sandbox's Python: standard library only, isolated from site packages."""
    return run([_require_host().python, "-I", "-S", "-B", script], files, limits)


def available() -> str | None:
    """None where the sandbox works on this machine (probed once), else one sentence that says why it does not."""
    host = _host()
    return host if isinstance(host, str) else None


def _require_host() -> Host:
    host = _host()
    if isinstance(host, str):
        raise SandboxUnavailableError(f"The sandbox cannot run: {host} {_REMEDY}")
    return host


@functools.cache
def _host() -> Host | str:
    """The first way of running that passes a probe, or why there is none."""
    reason = "the program bwrap was not found." if shutil.which("bwrap") is None else "/bin/bash was not found."
    for host in possible_hosts():
        try:
            result = _run(
                host, [host.python, "-I", "-S", "-c", "import json, subprocess, math"], {}, SandboxLimits(), None
            )
        except (SandboxUnavailableError, OSError) as error:
            reason = f"a probe failed ({str(error)[-300:].strip()})."
            continue
        if result.exit_status == 0:
            return host
        reason = f"the probe ended with {result.exit_status}: {result.stderr[-300:].strip()}"
    return reason


def _run(
    host: Host,
    command: Sequence[str],
    files: Mapping[str, str | bytes],
    limits: SandboxLimits,
    workspace: Workspace | None,
) -> SandboxResult:
    with ExitStack() as stack:
        group = stack.enter_context(cgroups.group(limits.memory_bytes, limits.processes))
        run = _Run(stack, files, workspace)
        process = run.start(command_line(host, command, run.wiring(), limits, group))
        stack.callback(forget, process.pid)
        box = run.begin(process) if workspace is not None else None
        started = time.monotonic()
        captured = capture(process, limits.wall_seconds, limits.output_bytes, run.kill_inside)
        seconds = time.monotonic() - started
        stop, exit_status = _ending(captured, run.exit_status(), group)
        tree, outside = box.read(limits) if box is not None else (None, None)
    unenforced = () if cgroups.MEMORY in group.enforced else (cgroups.MEMORY,)
    if cgroups.PROCESSES not in group.enforced and os.geteuid() == 0 and host.drop_to is None:
        unenforced = (*unenforced, cgroups.PROCESSES)
    return SandboxResult(
        exit_status=exit_status,
        stdout=captured.stdout,
        stderr=captured.stderr,
        stop=stop,
        unenforced=unenforced,
        tree=tree,
        outside=outside,
        seconds=seconds,
    )


def _ending(captured: Captured, exit_status: int | None, group: cgroups.Group) -> tuple[Stop, int | None]:
    if captured.timed_out or captured.overflowed:
        return Stop.TIME_LIMIT if captured.timed_out else Stop.OUTPUT_LIMIT, None
    if group.ran_out_of_memory():
        return Stop.MEMORY_LIMIT, None
    if exit_status is None:
        raise SandboxUnavailableError(f"The sandbox did not start: {captured.stderr[-500:].strip()} {_REMEDY}")
    killed = exit_status > 128 and exit_status - 128 in signal.valid_signals()
    return Stop.SIGNAL if killed else Stop.EXITED, exit_status


@dataclass(frozen=True, slots=True)
class _Box:
    """The working folder of a running sandbox and other places in it, held open from outside, and its first process."""

    folder: int
    outside: Mapping[str, int]
    first_process: int

    def read(self, limits: SandboxLimits) -> tuple[Tree, Tree]:
        """What the folder, and places outside of it, hold once the last process is dead: the first one dies last."""
        if not select.select([self.first_process], [], [], _DEATH_SECONDS)[0]:
            raise SandboxUnavailableError("The sandbox's processes did not end after KILL. Look at the machine.")
        trees = [
            (place, read_tree(folder, limits.result_files, limits.result_bytes))
            for place, folder in self.outside.items()
        ]
        nodes = {f"{place}/{path}": node for place, tree in trees for path, node in tree.nodes.items()}
        outside = Tree(nodes, all(tree.complete for _, tree in trees))
        return read_tree(self.folder, limits.result_files, limits.result_bytes), outside


class _Run:
    """The descriptors of one run; all are closed by the stack at its end, the child's copies as soon as it has them."""

    def __init__(self, stack: ExitStack, files: Mapping[str, str | bytes], workspace: Workspace | None) -> None:
        self._stack = stack
        self._theirs: list[int] = []
        self._watcher = pipe_of_watcher()
        stack.callback(self._close_theirs)
        self._status, self._status_in = self._pipe(ours=0)
        self._told = b""
        self._first: int | None = None
        self._files = {name: self._memory_file(content) for name, content in files.items()}
        program = filter_program()
        self._filter = None if program is None else self._memory_file(program)
        self._image: int | None = None
        self._stdin = subprocess.DEVNULL
        if workspace is not None:
            self._image = self._memory_file(workspace.image)
            self._stdin, self._go = self._pipe(ours=1)

    def wiring(self) -> Wiring:
        return Wiring(
            watcher=self._watcher, status=self._status_in, files=self._files, filter=self._filter, image=self._image
        )

    def start(self, line: Sequence[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            line,
            stdin=self._stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[self._watcher, *(one for one in self._theirs if one != self._stdin)],
            start_new_session=True,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
        )
        self._close_theirs()
        return process

    def begin(self, process: subprocess.Popen[bytes]) -> _Box | None:
        """Wait until the workspace is unpacked, hold its folder from outside, and let the command begin."""
        assert process.stdout is not None
        try:
            # One byte: whatever follows on standard output is the command's. None: it is dead, and capture learns why.
            told = select.select([process.stdout], [], [], _START_SECONDS)[0] and os.read(process.stdout.fileno(), 1)
            box = self._hold_box() if told else None
            with suppress(BrokenPipeError):
                os.write(self._go, b"\n")
        except BaseException:
            capture(process, 0.0, 0, self.kill_inside)
            raise
        return box

    def kill_inside(self) -> None:
        """End the first process of the sandbox, where one stands; bubblewrap is there to wait for it."""
        first = self._first_process()
        if first is not None:
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)

    def _first_process(self) -> int | None:
        """As bubblewrap reported it with the first line that it wrote; None: it has not yet."""
        if self._first is None and select.select([self._status], [], [], 0)[0]:
            self._told += os.read(self._status, 65536)
            lines = self._told.splitlines()
            self._first = int(json.loads(lines[0])["child-pid"]) if lines else None
        return self._first

    def _hold_box(self) -> _Box:
        first = self._first_process()
        assert first is not None
        watched = os.pidfd_open(first)
        self._stack.callback(os.close, watched)
        folders: dict[str, int] = {}
        for place in (BOX, *OUTSIDE):
            folders[place] = os.open(f"/proc/{first}/root{place}", os.O_RDONLY | os.O_DIRECTORY)
            self._stack.callback(os.close, folders[place])
        return _Box(folders.pop(BOX), folders, watched)

    def exit_status(self) -> int | None:
        """The exit code that bwrap reported; None where the command never started: our failure, not the code's."""
        with os.fdopen(os.dup(self._status), "rb") as status:
            self._told += status.read()
        codes = (json.loads(line).get("exit-code") for line in self._told.splitlines())
        return next((int(code) for code in codes if code is not None), None)

    def _pipe(self, ours: int) -> tuple[int, int]:
        ends = os.pipe()
        self._stack.callback(os.close, ends[ours])
        self._theirs.append(ends[1 - ours])
        return ends

    def _memory_file(self, content: str | bytes) -> int:
        """A descriptor, at its start, of an anonymous file: no temporary folder on the host to clean or to protect."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        descriptor = os.memfd_create("sandbox-file")
        self._theirs.append(descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())
