"""Runs INSIDE the sandbox, on the standard library alone: many commands, each in a fresh copy of one workspace.

It reads `job.json`, empties the folder, and for every command writes the files (in their order, or the other way
round), runs it in a bash of its own and says what it did, one JSON line a command: exit status, output of both
streams, the folder that the shell is in at the end, and all that is new, other or gone, with what git has staged.
"""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

BOX = Path("/box")
TEMPORARY = Path("/tmp")
PAST = 1_000_000_000
LEFT_OUT = ("__pycache__", ".pytest_cache")
GIT_LEFT_OUT = ("index", "logs", "COMMIT_EDITMSG", "ORIG_HEAD", "objects")
ENDING = "\n_status=$?; pwd > /dev/fd/9; exit $_status"


def main() -> None:
    job = json.loads(Path("job.json").read_text(encoding="utf-8"))
    for backwards, command in job["runs"]:
        nodes = list(reversed(job["nodes"])) if backwards else job["nodes"]
        empty(BOX)
        empty(TEMPORARY)
        build(nodes)
        before = tree()
        print(json.dumps({**run(command), "changes": changes(before, tree()), "git": staged()}), flush=True)


def empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()


def build(nodes: list[list[Any]]) -> None:
    for path, kind, content, executable in nodes:
        place = BOX / path
        place.parent.mkdir(parents=True, exist_ok=True)
        data = base64.b64decode(content)
        if kind == "folder":
            place.mkdir(exist_ok=True)
        elif kind == "link":
            place.symlink_to(os.fsdecode(data))
        else:
            place.write_bytes(data)
            place.chmod(0o755 if executable else 0o644)
    for folder, folders, files in os.walk(BOX, topdown=False):
        for name in (*folders, *files):
            os.utime(Path(folder, name), (PAST, PAST), follow_symlinks=False)
    os.utime(BOX, (PAST, PAST))


def run(command: str) -> dict[str, Any]:
    told, tell = os.pipe()
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/box", "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONHASHSEED": "0"}
    environment |= {f"GIT_{who}_DATE": "2000-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    shell = ["/bin/bash", "--norc", "--noprofile", "-c", f"exec 9>&{tell} {tell}>&-\ntrap '{ENDING}' EXIT\n{command}"]
    process = subprocess.Popen(
        shell, cwd=BOX, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        pass_fds=[tell], start_new_session=True,
    )  # fmt: skip
    os.close(tell)
    late = False
    try:
        output = process.communicate(timeout=4)[0]
    except subprocess.TimeoutExpired:
        late, output = True, b""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.set_blocking(told, False)
    try:
        folder = os.read(told, 4096).decode("utf-8", "replace").strip()
    except BlockingIOError:
        folder = ""
    os.close(told)
    text = output[:20_000].decode("utf-8", "replace")
    return {"status": process.returncode, "output": text, "folder": folder, "late": late or len(output) > 20_000}


def tree() -> dict[str, str]:
    found = {}
    for folder, folders, files in os.walk(BOX):
        for name in (*folders, *files):
            place = Path(folder, name)
            parts = place.relative_to(BOX).parts
            if any(part in LEFT_OUT for part in parts) or (parts[0] == ".git" and set(parts) & set(GIT_LEFT_OUT)):
                continue
            if place.is_symlink():
                found["/".join(parts)] = f"link {place.readlink()}"
            elif place.is_dir():
                found["/".join(parts)] = "folder"
            else:
                digest = hashlib.sha256(place.read_bytes()).hexdigest()[:16] if place.is_file() else "special"
                found["/".join(parts)] = f"file {digest} {os.access(place, os.X_OK)}"
    return found


def changes(before: dict[str, str], after: dict[str, str]) -> list[list[str]]:
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return [[path, after.get(path, "gone")] for path in paths]


def staged() -> str:
    if not (BOX / ".git").is_dir():
        return ""
    ask = "git status --porcelain; git ls-files -s; git stash list; git branch -a"
    return subprocess.run(["/bin/bash", "-c", ask], cwd=BOX, env={"PATH": "/usr/bin:/bin", "HOME": "/box"}, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL, text=True).stdout  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
