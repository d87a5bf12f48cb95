"""The hub source, against a small server that speaks the part of the hub's protocol that a download uses."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

COMMIT = "c" * 40
FILES = {"a.jsonl": b'{"a": 1}\n', "warmup/b.jsonl": b'{"b": 2}\n', "README.md": b"not data"}
TOKENIZER = ["chat_template.jinja", "config.json", "merges.txt", "tokenizer.json", "tokenizer.model"]
WEIGHTS = ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]
UNREAD = [
    "README.md", "consolidated.safetensors", "model.Q4_K_M.gguf", "onnx/config.json", "original/consolidated.00.pth",
    "original/params.json", "pytorch_model.bin",
]  # fmt: skip
REPOSITORIES = {
    "datasets/team/data": FILES,
    "models/team/model": {name: name.encode() for name in (*TOKENIZER, *WEIGHTS, *UNREAD)},
}
PULL = """
import sys
from pathlib import Path
from pivotrl_core.errors import PivotRLError
from tasks.pull import HubSource, pull
from tasks.pull.retry import retry
retry.__defaults__ = ((0.0,), lambda seconds: print("again", end=" "))
try:
    manifest = pull(HubSource("team/data", sys.argv[1], tuple(sys.argv[3:])), Path(sys.argv[2]))
except PivotRLError as error:
    print(type(error).__name__, error)
else:
    print(manifest.revision, *(file.origin_key for file in manifest.files))
"""


DOWNLOAD = """
import sys
from pivotrl_core.engines import hub
folder = hub.HubRepository("model", "team/model", sys.argv[1]).download(getattr(hub, sys.argv[2]))
print(*sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
"""


class Hub(BaseHTTPRequestHandler):
    """Answers for a data set and a model with one commit each, `main`."""

    asked: list[str] = []  # noqa: RUF012
    down = False

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.asked.append(f"{self.command} {path}")
        kind = "models/team/model" if "team/model" in path else "datasets/team/data"
        files = REPOSITORIES[kind]
        api, resolve = f"/api/{kind}", f"/{kind.removeprefix('models/')}/resolve/{COMMIT}/"
        if self.down:
            return self._send(503, b"")
        if path in (f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            siblings = [{"rfilename": name} for name in files]
            return self._send_json({"id": kind.partition("/")[2], "sha": COMMIT, "siblings": siblings})
        if path.startswith(f"{api}/tree/{COMMIT}"):
            return self._send_json(
                [
                    {"type": "file", "path": n, "size": len(b), "oid": hashlib.sha1(b).hexdigest()}
                    for n, b in files.items()
                ]
            )
        if path.startswith(resolve):
            body = files[path.removeprefix(resolve)]
            return self._send(200, body, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT})
        code = "RevisionNotFound" if path.startswith(api) else "RepoNotFound"
        return self._send(404, b"{}", {"X-Error-Code": code})

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pull_in_process(
    revision: str, tmp_path: Path, patterns: tuple[str, ...] = ("*.jsonl", "*.jsonl.gz"), **environment: str
) -> str:
    """What a pull prints."""
    return in_process([PULL, revision, str(tmp_path / "pulled"), *patterns], tmp_path, **environment)


def in_process(arguments: list[str], tmp_path: Path, **environment: str) -> str:
    """In a process of its own: the hub's client reads its environment when it is imported."""
    import os

    clean = {n: v for n, v in os.environ.items() if not n.startswith("HF_")}
    env = {**clean, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
           **environment}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", *arguments], env=env, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_branch_is_resolved_to_a_commit_and_only_data_is_downloaded_once(hub, tmp_path):
    assert pull_in_process("main", tmp_path, HF_ENDPOINT=hub) == f"{COMMIT} a.jsonl warmup/b.jsonl"
    downloads = [path for path in Hub.asked if path.startswith("GET /datasets/")]
    assert len(downloads) == 2
    Hub.asked.clear()
    assert pull_in_process("main", tmp_path, HF_ENDPOINT=hub) == f"{COMMIT} a.jsonl warmup/b.jsonl"
    assert [path for path in Hub.asked if path.startswith("GET /datasets/")] == []


def test_a_commit_in_the_cache_needs_no_network_and_a_branch_says_what_to_do(hub, tmp_path):
    pull_in_process("main", tmp_path, HF_ENDPOINT=hub)
    assert pull_in_process(COMMIT, tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="1").startswith(COMMIT)
    said = pull_in_process("main", tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="1")
    assert said.startswith("ConfigError hub data set team/data at main")
    assert "unset HF_HUB_OFFLINE" in said


def test_of_a_model_only_what_is_read_is_downloaded(hub, tmp_path):
    said = in_process([DOWNLOAD, "main", "TOKENIZER_FILES"], tmp_path, HF_ENDPOINT=hub)
    # The index of the weights is a JSON file like the tokenizer's own: small, and not worth a rule.
    assert said.split() == sorted([*TOKENIZER, "model.safetensors.index.json"])
    said = in_process([DOWNLOAD, COMMIT, "MODEL_FILES"], tmp_path, HF_ENDPOINT=hub)
    assert said.split() == sorted([*TOKENIZER, *WEIGHTS])


def test_an_unknown_revision_is_a_configuration_error(hub, tmp_path):
    said = pull_in_process("no-such-branch", tmp_path, HF_ENDPOINT=hub)
    assert said.startswith(
        "ConfigError hub data set team/data at no-such-branch: not found; check source.repo and source.revision;"
    )


def test_patterns_decide_also_where_the_cache_and_the_last_pull_hold_more(hub, tmp_path):
    pull_in_process(COMMIT, tmp_path, HF_ENDPOINT=hub)
    for patterns, keys in ((("a*",), "a.jsonl"), (("a*", "warmup/"), "a.jsonl warmup/b.jsonl")):
        assert pull_in_process(COMMIT, tmp_path, patterns, HF_ENDPOINT=hub) == f"{COMMIT} {keys}"


def test_a_hub_that_cannot_be_reached_is_tried_again_and_then_a_temporary_error(tmp_path):
    said = pull_in_process("main", tmp_path, HF_ENDPOINT="http://127.0.0.1:1")
    assert said.startswith("again TemporaryError hub data set team/data at main: the hub cannot be reached")
