"""A pull has the deadline of a stage: a source that stops answering ends it, and the next one goes on from there."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flows.chain import pull_from_source
from flows.session import Session
from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import EXIT_CONFIG
from pivotrl_core.guardian import TIMED_OUT
from tasks.graph import Workplace
from tasks.provenance import Snapshot
from tasks.pull import read_manifest
from tasks.settings import State
from tasks.supervision import STAGE_HOURS, StageFailedError

MIB = 1 << 20
BODY = os.urandom(3 * MIB)
PARAMS = """
source: {kind: s3, bucket: trajectories, prefix: support}
model: {kind: folder, path: model}
arms: {base: {}}
"""


class Silent(BaseHTTPRequestHandler):
    """An S3 server with one object, which it stops sending in the middle while `goes_on` is not set."""

    goes_on: ClassVar[threading.Event] = threading.Event()
    ranges: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        if "list-type" in self.path:
            etag = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
            found = f"<Key>support/a.jsonl</Key><Size>{len(BODY)}</Size><ETag>{etag}</ETag>"
            self._answer(200, f"<ListBucketResult><Contents>{found}</Contents></ListBucketResult>".encode())
            return
        self.ranges.append(self.headers.get("Range"))
        start = int((self.headers.get("Range") or "bytes=0-")[len("bytes=") : -1])
        self._answer(206 if start else 200, BODY[start:], MIB + 1 if not self.goes_on.is_set() else len(BODY))

    def _answer(self, status: int, body: bytes, sent: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])
        if sent is not None and sent < len(body):
            self.goes_on.wait(60)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Silent]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield Silent
    Silent.goes_on.set()
    server.shutdown()
    server.server_close()
    Silent.goes_on.clear()
    Silent.ranges.clear()


def _session(checkout: Path, root: Path) -> Session:
    """A run that works in `root`, which is the checkout or one of its private worktrees."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(PARAMS)
    (checkout / "model").mkdir(exist_ok=True)
    (checkout / "model" / "config.json").write_text("{}")
    state = State(checkout / ".state")
    place = Workplace(root, {}, state.runs / root.name / "logs")
    return Session("run", root.name, checkout, state, load_config(root / "params.yaml"), Snapshot("", b""), place)


@pytest.mark.parametrize("private", [False, True], ids=["in the checkout", "in worktrees"])
def test_a_pull_that_stands_still_is_ended_and_the_next_one_goes_on(
    tmp_path: Path, silent: type[Silent], private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIVOTRL_STATE", raising=False)
    roots = [tmp_path / ".state" / "worktrees" / name if private else tmp_path for name in ("first", "second")]
    monkeypatch.setenv(STAGE_HOURS, str(15 / 3600))  # seconds enough to start, and to get the first megabyte
    with pytest.raises(StageFailedError, match="pull from s3://trajectories/support: it passed its deadline") as caught:
        pull_from_source(_session(tmp_path, roots[0]))
    assert caught.value.code == TIMED_OUT
    assert STAGE_HOURS in str(caught.value)
    assert read_manifest(roots[0] / "data" / "pulled") is None
    monkeypatch.delenv(STAGE_HOURS)
    silent.goes_on.set()
    pull_from_source(_session(tmp_path, roots[1]))
    manifest = read_manifest(roots[1] / "data" / "pulled")
    assert manifest is not None
    assert manifest.files[0].sha256 == hashlib.sha256(BODY).hexdigest()
    assert silent.ranges == [None, f"bytes={MIB}-"]
    assert not State(tmp_path / ".state").staging.exists()


def test_what_a_pull_fails_with_comes_through(tmp_path: Path) -> None:
    session = _session(tmp_path, tmp_path)
    (tmp_path / "params.yaml").write_text("source: {kind: folder, path: nowhere}\narms: {base: {}}\n")
    with pytest.raises(
        StageFailedError, match=r"nowhere.* does not exist; give a file, a folder or a pattern"
    ) as caught:
        pull_from_source(session)
    assert caught.value.exit_code == EXIT_CONFIG
