"""SIGKILL at random moments, by hand: `python tests/soak/kill_resume.py FOLDER [--kills 20] [--seed 0]`.

Clones this checkout twice below FOLDER. In the first clone `pivotrl run --quick` runs undisturbed; in the second its
whole process group is killed at random moments spread over the length of the undisturbed run, and started again each
time. Then the output hashes of both records are compared. Exit status 0: equal. Takes about four undisturbed runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "flows.cli", "run", "--quick"]


def clone(target: Path) -> Path:
    """A clone of the committed HEAD, which shares the converted model of this checkout where there is one."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(target)], check=True)
    return target


def start(place: Path) -> subprocess.Popen[bytes]:
    """The quick run in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(place)}
    log = (place / "soak.log").open("ab")
    return subprocess.Popen(COMMAND, cwd=place, env=environment, stdout=log, stderr=log, start_new_session=True)


def finish(place: Path) -> float:
    """Run to the end; returns its seconds."""
    begun = time.monotonic()
    if start(place).wait() != 0:
        raise SystemExit(f"the run failed; see {place / 'soak.log'}")
    return time.monotonic() - begun


def stage_under_way(place: Path) -> str:
    """The stage whose start the log told last."""
    lines = (place / "soak.log").read_text(encoding="utf-8", errors="replace").splitlines()
    started = [line.split()[1].rstrip(":") for line in lines if line.endswith(": started")]
    return started[-1] if started else "before the first stage"


def outputs(place: Path) -> dict[str, str]:
    """Hash of every output of the newest record, timings apart."""
    refs = subprocess.run(
        ["git", "-C", str(place), "for-each-ref", "--sort=-creatordate", "--format=%(objectname)", "refs/pivotrl/runs"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    lock = subprocess.run(
        ["git", "-C", str(place), "show", f"{refs[0]}:dvc.lock"], check=True, capture_output=True, text=True
    ).stdout
    stages = yaml.safe_load(lock)["stages"]
    outs = [out for stage in stages.values() for out in stage.get("outs", [])]
    return {out["path"]: out["md5"] for out in outs if not out["path"].startswith("reports/timings/")}


def main() -> int:
    """Compare a run that was killed again and again with one that was not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    calm, killed = clone(arguments.folder / "calm"), clone(arguments.folder / "killed")
    seconds = finish(calm)
    print(f"undisturbed: {seconds:.0f} s", flush=True)
    draw = random.Random(arguments.seed)
    for number in range(arguments.kills):
        process = start(killed)
        # A run gets somewhere before it is hit: from its own start-up to a good part of what was left.
        wait = draw.uniform(5.0, max(10.0, seconds / 6))
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(f"kill {number + 1}: after {wait:.0f} s, in {stage_under_way(killed)}", flush=True)
        else:
            print(f"kill {number + 1}: came too late, the run had ended", flush=True)
    finish(killed)
    ours, theirs = outputs(calm), outputs(killed)
    differing = sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))
    print(json.dumps({"outputs": len(ours), "differing": differing}))
    return 1 if differing or not ours else 0


if __name__ == "__main__":
    raise SystemExit(main())
