"""What hostile code tries: each attack ends within its limits, reaches nothing and leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pivotrl_core.verifiers import cgroups, sandbox
from pivotrl_core.verifiers.sandbox import SandboxLimits, SandboxResult, Stop
from pivotrl_core.verifiers.system_calls import filter_program
from pivotrl_core.verifiers.workspace import Node, NodeKind, make_workspace
from tests.sandbox_processes import processes_that_mention

_REASON = sandbox.available()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=f"no sandbox: {_REASON}")
EMPTY = make_workspace({})


def attack(code: str, limits: SandboxLimits | None = None) -> SandboxResult:
    """Python code, in a workspace, with the marker in its command line."""
    return sandbox.run_in_workspace(["/usr/bin/env", "python3", "-I", "-S", "-c", code], EMPTY, limits)


def groups_of_ours() -> list[str]:
    parents = [parent.folder for parent in cgroups._parents()]
    return [path.name for parent in parents for path in parent.glob(f"pivotrl-sandbox-{os.getpid()}-*")]


@pytest.fixture
def marker() -> Iterator[str]:
    """A word for an attack's command line and files; afterwards no process and no folder of the host holds it."""
    word = f"marker-{uuid.uuid4().hex}"
    yield word
    assert processes_that_mention(word) == []
    assert groups_of_ours() == []
    folders = [Path(name) for name in ("/", "/tmp", "/box", "/dev/shm", "/var/tmp", str(Path.home()), str(Path.cwd()))]
    assert [path for folder in folders if folder.is_dir() for path in folder.iterdir() if word in path.name] == []


def test_a_fork_bomb(marker: str) -> None:
    result = attack(f"'{marker}'\nimport os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                    SandboxLimits(wall_seconds=1.0))  # fmt: skip
    assert result.stop is Stop.TIME_LIMIT
    assert result.exit_status is None


def test_memory_that_many_processes_take_together(marker: str) -> None:
    code = (
        f"'{marker}'\nimport os, time\n"
        "for _ in range(8):\n    if os.fork() == 0:\n"
        "        data = bytearray(60 * 2**20); time.sleep(1.5); os._exit(0)\n"
        "for _ in range(8): os.wait()\nprint('all lived')"
    )
    result = attack(code, SandboxLimits(wall_seconds=10.0, memory_bytes=200 * 2**20))
    if "memory" in result.unenforced:
        assert result.stdout == "all lived\n"
    else:
        assert result.stop is Stop.MEMORY_LIMIT
        assert result.exit_status is None


@pytest.mark.parametrize("folder", ["/box", "/tmp", "/dev/shm"])
def test_filling_a_folder(marker: str, folder: str) -> None:
    code = (
        f"'{marker}'\ni = 0\ntry:\n    while True:\n"
        f"        open(f'{folder}/{marker}{{i}}', 'wb').write(bytes(2**20)); i += 1\n"
        "except OSError: print(i)"
    )
    result = attack(code, SandboxLimits(folder_bytes=8 * 2**20))
    assert int(result.stdout) <= 8


def test_more_files_than_are_read_back(marker: str) -> None:
    result = attack(f"'{marker}'\nfor i in range(3000): open(str(i), 'w')", SandboxLimits(result_files=1000))
    assert result.tree is not None
    assert not result.tree.complete
    assert len(result.tree.nodes) == 1000


def test_one_huge_file_with_nothing_in_it(marker: str) -> None:
    result = attack(f"'{marker}'\nopen('f', 'w').truncate(10**12)")
    assert result.exit_status != 0
    result = attack(f"'{marker}'\nopen('f', 'w').truncate(30 * 2**20)", SandboxLimits(result_bytes=2**20))
    assert result.tree is not None
    assert not result.tree.complete
    assert len(result.tree.nodes["f"].content) <= 2**20


def test_folders_deeper_than_any_path(marker: str) -> None:
    code = f"'{marker}'\nimport os\nfor _ in range(3000):\n    os.mkdir('d' * 50); os.chdir('d' * 50)"
    result = attack(code)
    assert result.exit_status == 0
    assert result.tree is not None
    assert not result.tree.complete


def test_endless_output_and_a_hundred_megabytes_of_json(marker: str) -> None:
    started = time.monotonic()
    result = attack(f"'{marker}'\nimport os\nwhile True: os.write(2, b'x' * 65536)")
    assert result.stop is Stop.OUTPUT_LIMIT
    result = attack(f"'{marker}'\nprint('[' * 100_000_000)", SandboxLimits(output_bytes=1000))
    assert result.stop is Stop.OUTPUT_LIMIT
    assert result.stdout == "[" * 1000
    assert time.monotonic() - started < 15


def test_services_of_this_machine_are_out_of_reach(marker: str) -> None:
    name = f"\0{marker}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        result = attack(
            f"'{marker}'\nimport socket\n"
            f"for address in (('127.0.0.1', {server.getsockname()[1]}), {name!r}):\n"
            "    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET\n"
            "    try: socket.socket(family).connect(address); print('reached')\n"
            "    except OSError: print('refused')"
        )
        assert result.stdout == "refused\nrefused\n"


def test_other_places_cannot_be_read(marker: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    places = [secret, Path.home(), Path.cwd(), "/etc/shadow", "/etc/passwd", f"/proc/{os.getpid()}/environ", "/sys",
              f"/proc/1/root{Path.cwd()}", "/proc/1/cwd/../etc/shadow", "/old_root", "/var/log", "/root"]  # fmt: skip
    result = attack(
        f"'{marker}'\nimport os\n"
        f"for path in {[str(place) for place in places]!r}:\n"
        "    try: print(path, os.listdir(path) if os.path.isdir(path) else open(path).read())\n"
        "    except OSError: pass"
    )
    assert result.stdout == ""
    assert result.exit_status == 0


def test_signals_reach_nothing_outside(marker: str) -> None:
    got: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    try:
        result = attack(
            f"'{marker}'\nimport os, signal\n"
            f"for pid in (os.getppid(), 1, 0, -1, {os.getpid()}):\n"
            "    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL):\n"
            "        if pid in (0, -1) and number != signal.SIGUSR1: continue\n"
            "        signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
            "        try: os.kill(pid, number)\n"
            "        except OSError: pass\n"
            "print('still here')"
        )
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert got == []
    assert result.stdout == "still here\n"
    assert attack(f"'{marker}'\nimport os; os.kill(-1, 9)").exit_status != 0


def test_a_daemon_that_leaves_its_session_and_closes_its_output(marker: str) -> None:
    code = (
        f"'{marker}'\nimport os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.closerange(0, 100)\n        i = 0\n"
        f"        while True:\n            i += 1; open('{marker}', 'w').write(str(i))\n"
        "    os._exit(0)\n"
        "time.sleep(0.2); print('done')"
    )
    started = time.monotonic()
    result = attack(code)
    assert result.stdout == "done\n"
    assert result.exit_status == 0
    assert time.monotonic() - started < 8


def test_all_dies_with_the_process_that_asked(marker: str, tmp_path: Path) -> None:
    code = f"'{marker}'; import time; time.sleep(60)"
    program = (
        "from pivotrl_core.verifiers import sandbox\nfrom pivotrl_core.verifiers.workspace import make_workspace\n"
        f"sandbox.run_in_workspace(['/usr/bin/env', 'python3', '-c', {code!r}], make_workspace({{}}))"
    )
    path = tmp_path / "asks.py"
    path.write_text(program)
    asking = subprocess.Popen([sys.executable, str(path)], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    deadline = time.monotonic() + 20
    while not processes_that_mention(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_that_mention(marker)
    asking.kill()
    asking.wait()
    while processes_that_mention(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    for parent in cgroups._parents():  # what the killed one left, the next to begin removes
        cgroups._remove_leftovers(parent.folder)
        assert list(parent.folder.glob(f"pivotrl-sandbox-{asking.pid}-*")) == []


def test_links_pipes_and_devices_among_the_results_are_named_and_not_followed(marker: str) -> None:
    code = (
        f"'{marker}'\nimport os, socket\n"
        "os.symlink('/etc/shadow', 'link'); os.symlink('/', 'root'); os.symlink('link2', 'link2')\n"
        "os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')\n"
        "try: os.mknod('device', 0o20666, os.makedev(1, 5))\nexcept OSError: print('refused')\n"
        "open('hidden', 'w').write('x'); os.chmod('hidden', 0)\n"
        "os.rename('/box/link', '/box/moved')"
    )
    started = time.monotonic()
    result = attack(code)
    assert result.tree is not None
    nodes = result.tree.nodes
    assert result.stdout == "refused\n"
    assert nodes["moved"] == Node(NodeKind.LINK, b"/etc/shadow")
    assert nodes["root"] == Node(NodeKind.LINK, b"/")
    assert nodes["link2"] == Node(NodeKind.LINK, b"link2")
    assert nodes["pipe"].kind is nodes["socket"].kind is NodeKind.SPECIAL
    assert set(nodes) == {"moved", "root", "link2", "pipe", "socket", "hidden"}
    assert time.monotonic() - started < 8


def test_putting_a_link_in_the_place_of_the_working_folder(marker: str) -> None:
    result = attack(f"'{marker}'\nimport os\ntry: os.rename('/box', '/tmp/box')\nexcept OSError: print('refused')")
    assert result.stdout == "refused\n"


def test_names_and_output_that_are_no_text(marker: str) -> None:
    code = (
        f"'{marker}'\nimport os\nopen(b'\\xff\\xfe', 'w').write('x'); open('new\\nline', 'w')\n"
        "os.write(1, b'a\\x00b\\xff\\xed\\xa0\\x80')"
    )
    result = attack(code)
    assert result.tree is not None
    assert set(result.tree.nodes) == {"\udcff\udcfe", "new\nline"}
    assert result.stdout.startswith("a\0b")
    assert result.stdout.encode("utf-8")


def test_no_namespace_of_its_own_and_no_mount_inside(marker: str) -> None:
    result = sandbox.run(["/bin/sh", "-c", f": {marker}; unshare -Ur true; mount -t tmpfs none /tmp"], {})
    assert result.exit_status != 0
    assert "unshare failed" in result.stderr


def test_one_run_sees_nothing_of_the_one_before(marker: str) -> None:
    attack(f"for folder in ('/box', '/tmp', '/dev/shm'): open(folder + '/{marker}', 'w').write('x')")
    result = attack(f"'{marker}'\nimport os\nprint([os.listdir(f) for f in ('/box', '/tmp', '/dev/shm')])")
    assert result.stdout == "[[], [], []]\n"


def test_many_at_once_mix_up_nothing(marker: str) -> None:
    def one(number: int) -> bool:
        start = make_workspace({"number": Node(NodeKind.FILE, str(number).encode())})
        result = sandbox.run_in_workspace(["/bin/sh", "-c", f": {marker}; cat number; mv number copy"], start)
        assert result.tree is not None
        return (result.stdout, dict(result.tree.nodes)) == (str(number), {"copy": start.tree.nodes["number"]})

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(24)))


def test_a_forked_process_has_a_watcher_of_its_own(marker: str) -> None:
    def child(code: str) -> None:
        os._exit(sandbox.run(["/bin/sh", "-c", code], {}).exit_status or 0)

    process = multiprocessing.get_context("fork").Process(target=child, args=(f": {marker}; exit 7",))
    process.start()
    process.join(30)
    assert process.exitcode == 7
    assert sandbox.run(["true"], {}).exit_status == 0


def test_what_no_namespace_divides_is_refused(marker: str) -> None:
    """A virtual machine's way to its host, the keys of a session, and io_uring, by which sockets are made unseen."""
    keyctl, io_uring_setup = (250, 425) if platform.machine() == "x86_64" else (219, 425)
    result = attack(
        f"'{marker}'\nimport ctypes, socket\n"
        "def name(family):\n"
        "    try: socket.socket(family, socket.SOCK_STREAM)\n"
        "    except OSError as error: return error.errno\n"
        "print(name(socket.AF_VSOCK), name(socket.AF_INET), name(socket.AF_UNIX))\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"for call in (({keyctl}, 0, -3, 0), ({io_uring_setup}, 1, 0)):\n"
        "    print(libc.syscall(*call), ctypes.get_errno())"
    )
    assert result.stdout == "97 None None\n-1 1\n-1 1\n", result.stderr


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert filter_program("x86_64") != filter_program("aarch64")
    assert filter_program("s390x") is None
