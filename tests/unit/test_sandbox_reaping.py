"""Sandboxes leave no dead process to whoever adopts orphans: the first process of many containers waits for none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pivotrl_core.verifiers import sandbox

_REASON = sandbox.available()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=f"no sandbox: {_REASON}")

ADOPTING = """
import ctypes, os
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.workspace import make_workspace
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # orphans come here, as to a container's first
def check(label):
    children = [line.split() for line in os.popen("ps --ppid %d -o stat=,comm=" % os.getpid())]
    print(label, sum(state.startswith("Z") for state, _ in children))
assert sandbox.available() is None
for _ in range(3):
    sandbox.run(["true"], {})
    sandbox.run_in_workspace(["/bin/bash", "-c", "sleep 100 & setsid sleep 100 & true"], make_workspace({}))
check("ended")
short = sandbox.SandboxLimits(wall_seconds=0.3, output_bytes=100)
for command in (["sleep", "100"], ["yes"], ["/bin/bash", "-c", "kill -9 $$"]):
    sandbox.run(command, {}, short)
    sandbox.run_in_workspace(command, make_workspace({}), short)
check("killed")
"""


def test_the_processes_of_a_sandbox_are_waited_for_by_it() -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended 0\nkilled 0\n", done.stderr
