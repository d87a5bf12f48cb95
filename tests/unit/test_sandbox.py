"""The sandbox holds: each attack is real, runs under the real bubblewrap, and leaves nothing behind."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.verifiers import sandbox, sandbox_host
from pivotrl_core.verifiers.sandbox import SandboxLimits, SandboxResult, Stop
from tests.sandbox_processes import processes_that_mention

_REASON = sandbox.available()
needs_sandbox = pytest.mark.skipif(_REASON is not None, reason=f"no sandbox: {_REASON}")


def python(code: str, limits: SandboxLimits | None = None, **files: str) -> SandboxResult:
    return sandbox.run_python({"main.py": code, **files}, "main.py", limits)


def wait_until_gone(marker: str) -> list[str]:
    deadline = time.monotonic() + 5
    while (found := processes_that_mention(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@needs_sandbox
def test_a_program_reads_its_files_and_its_exit_status_and_output_come_back() -> None:
    code = "import sys; print(open('input.txt').read()); print('err', file=sys.stderr); sys.exit(3)"
    result = sandbox.run_python({"main.py": code, "input.txt": "hällo"}, "main.py")
    assert (result.exit_status, result.stdout, result.stderr) == (3, "hällo\n", "err\n")
    assert result.stop is Stop.EXITED
    assert not result.timed_out


@needs_sandbox
def test_the_network_is_refused() -> None:
    result = python(
        "import socket\n"
        "for address in (('127.0.0.1', 80), ('1.1.1.1', 53)):\n"
        "    try: socket.create_connection(address, 2); print('connected')\n"
        "    except OSError: print('refused')\n"
        "print([name for _, name in socket.if_nameindex()])"
    )
    assert result.stdout == "refused\nrefused\n['lo']\n"


@needs_sandbox
def test_home_secrets_and_other_processes_are_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    home = str(Path.home())
    result = python(
        "import os\n"
        f"for path in ({home!r}, '/etc/shadow', '/etc/passwd', {str(Path.cwd())!r}, '/var'):\n"
        "    try: print(path, os.listdir(path) if os.path.isdir(path) else open(path).read())\n"
        "    except OSError: print('hidden')\n"
        "print('SECRET_TOKEN' in os.environ)\n"
        "print(sum(name.isdigit() for name in os.listdir('/proc')) < 4)"
    )
    assert result.stdout == "hidden\n" * 5 + "False\nTrue\n"


@needs_sandbox
def test_the_system_is_read_only_and_the_working_folder_is_not() -> None:
    result = python(
        "for path in ('/usr/x', '/x', '/etc/x', '/box/x', '/tmp/x'):\n"
        "    try: open(path, 'w').write('x'); print('written')\n"
        "    except OSError: print('refused')"
    )
    assert result.stdout == "refused\nrefused\nrefused\nwritten\nwritten\n"


@needs_sandbox
def test_a_fork_bomb_is_stopped_and_leaves_nothing() -> None:
    marker = uuid.uuid4().hex
    code = f"marker = '{marker}'\nimport os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = sandbox.run([_python(), "-c", code], {}, SandboxLimits(wall_seconds=1.0, processes=16))
    assert result.stop is Stop.TIME_LIMIT
    assert result.exit_status is None
    assert wait_until_gone(marker) == []


@needs_sandbox
def test_the_number_of_processes_is_limited_or_the_result_says_that_it_is_not() -> None:
    result = python(
        "import os, time\ncount = 0\ntry:\n    while count < 60:\n"
        "        if os.fork() == 0: time.sleep(5); os._exit(0)\n        count += 1\n"
        "except OSError: pass\nprint(count)",
        SandboxLimits(processes=16),
    )
    assert int(result.stdout) < 16 or result.unenforced == ("processes",)


@needs_sandbox
def test_endless_output_is_cut_and_the_program_is_killed() -> None:
    started = time.monotonic()
    result = python("while True: print('x' * 10000)", SandboxLimits(wall_seconds=20, output_bytes=5000))
    assert result.stop is Stop.OUTPUT_LIMIT
    assert result.stdout == "x" * 5000
    assert time.monotonic() - started < 10


@needs_sandbox
def test_a_memory_bomb_fails_inside() -> None:
    result = python("data = bytearray(10**9)\nprint('allocated')", SandboxLimits(memory_bytes=200 * 2**20))
    assert result.exit_status == 1
    assert "MemoryError" in result.stderr
    assert result.stdout == ""


@needs_sandbox
@pytest.mark.parametrize("folder", ["/box", "/tmp", "/dev/shm", "/dev"])
def test_a_disk_bomb_fails_inside(folder: str) -> None:
    code = (
        f"folder = {folder!r}\n"
        "i = 0\ntry:\n    while i < 100:\n        open(f'{folder}/f{i}', 'wb').write(bytes(2**20)); i += 1\n"
        "except OSError: print(i < 10)"
    )
    assert python(code, SandboxLimits(file_bytes=4 * 2**20, folder_bytes=8 * 2**20)).stdout == "True\n"


@needs_sandbox
def test_the_time_limit_ends_a_sleeper_and_keeps_what_it_wrote() -> None:
    started = time.monotonic()
    result = python("import time; print('before', flush=True); time.sleep(60)", SandboxLimits(wall_seconds=0.5))
    assert result.timed_out
    assert result.exit_status is None
    assert result.stdout == "before\n"
    assert time.monotonic() - started < 10


@needs_sandbox
def test_closing_its_pipes_does_not_save_a_program_from_the_time_limit() -> None:
    result = python("import os, time; os.close(1); os.close(2); time.sleep(60)", SandboxLimits(wall_seconds=0.5))
    assert result.timed_out


@needs_sandbox
def test_a_daemon_that_outlives_its_parent_leaves_nothing_running() -> None:
    marker = uuid.uuid4().hex
    code = (
        f"marker = '{marker}'\nimport os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\n"
        "print('parent done')"
    )
    started = time.monotonic()
    result = sandbox.run([_python(), "-c", code], {}, SandboxLimits(wall_seconds=20))
    assert result.exit_status == 0
    assert result.stdout == "parent done\n"
    assert time.monotonic() - started < 10
    assert wait_until_gone(marker) == []


@needs_sandbox
def test_a_missing_program_is_the_programs_failure_not_the_sandboxs() -> None:
    assert sandbox.run(["/no/such/program"], {}).exit_status == 127


@needs_sandbox
def test_runs_leave_no_open_descriptors() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        python("print(1)")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_sandbox
@pytest.mark.parametrize("name", ["../escape", "/etc/x", "", "a/../../b"])
def test_a_file_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        sandbox.run_python({name: "x"}, "main.py")


@needs_sandbox
def test_the_interpreter_of_this_process_can_be_bound_when_there_is_no_system_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox_host, "SYSTEM_PYTHON", Path("/no/such/python3"))
    sandbox._host.cache_clear()
    try:
        folder = str(Path.home())
        result = python(f"import os; print(len(os.listdir({folder!r})) if os.path.exists({folder!r}) else 0)")
        assert result.stdout in ("0\n", "1\n"), "at most the folder that leads to the interpreter"
    finally:
        sandbox._host.cache_clear()


def test_without_bubblewrap_it_says_so_and_refuses_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    sandbox._host.cache_clear()
    try:
        assert "bwrap was not found" in str(sandbox.available())
        with pytest.raises(SandboxUnavailableError, match="apt-get install bubblewrap"):
            sandbox.run(["true"], {})
    finally:
        sandbox._host.cache_clear()


def _python() -> str:
    host = sandbox._host()
    assert not isinstance(host, str)
    return host.python
