"""Runs INSIDE the sandbox, on the standard library alone: one solution, all its tests, one JSON line per test.

It is never imported by the package: `code_execution` reads it as text. It knows the inputs but not the expected
outputs, so no trick of the solution can make a wrong answer pass. Each line is [index, value], and of a function called
[index, value, arguments as the call leaves them].
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read job.json, run solution.py as it says, and report on the descriptor that was standard output."""
    job = json.loads(Path("job.json").read_text(encoding="utf-8"))
    report = os.dup(1)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if job["kind"] == "function":
        run_calls(job, report)
    else:
        run_programs(job, report)


def run_calls(job: dict[str, Any], report: int) -> None:
    """Import the solution once, then call its function for each test; an exception fails that test alone."""
    namespace: dict[str, Any] = {"__name__": "solution"}
    code = Path("solution.py").read_text(encoding="utf-8")
    exec(compile(code, "solution.py", "exec"), namespace)  # noqa: S102 - what the sandbox is for
    for index, arguments in enumerate(job["inputs"]):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            send(report, index, namespace[job["function"]](*arguments), arguments)


def run_programs(job: dict[str, Any], report: int) -> None:
    """Run the solution as a program for each test, with the test's text as standard input."""
    for index, text in enumerate(job["inputs"]):
        given, printed = Path("stdin.txt"), Path("stdout.bin")
        given.write_text(text, encoding="utf-8")
        with given.open("rb") as stdin, printed.open("wb") as stdout, contextlib.suppress(Exception):
            command = [sys.executable, "-I", "-S", "-B", "solution.py"]
            done = subprocess.run(command, stdin=stdin, stdout=stdout, timeout=job["seconds"], check=False)
            if done.returncode == 0:
                with printed.open("rb") as output:
                    send(report, index, output.read(job["bytes"]).decode("utf-8", "replace"))


def send(report: int, index: int, *values: object) -> None:
    """Write one result line; a value that JSON cannot hold raises and so fails its test."""
    os.write(report, json.dumps([index, *values], allow_nan=False).encode() + b"\n")


if __name__ == "__main__":
    main()
