"""Doctor says of a checkout and of MLflow what a run would meet."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from flows.doctor import Check, _commit, _mlflow
from tasks.repository import GitError, Repository


def test_a_checkout_that_run_refuses_is_refused_with_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "outer/checkout"
    folder.mkdir(parents=True)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        subprocess.run(["git", *identity, "-C", str(folder.parent), *arguments], check=True, capture_output=True)

    def refused(words: str) -> Check:
        with pytest.raises(GitError) as caught:
            Repository(folder).head()
        check = _commit(folder)
        assert not check.good
        assert f"{check.found}; {check.remedy}" == str(caught.value)
        assert words in check.found
        return check

    refused("not a git repository")
    git("init", "--quiet")
    assert refused("no git commit to stand on").remedy == "commit once, then run again"
    git("commit", "--quiet", "--allow-empty", "--message", "x")
    assert refused("is a folder (checkout/) of another repository").remedy.startswith("clone the project")
    assert _commit(folder.parent) == Check("commit", True, Repository(folder.parent).head())


@contextmanager
def _server(status: int) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """The port of a server that answers all with one status, and the paths and keys it was asked with."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()


def test_an_mlflow_server_is_asked_and_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # a proxy is not for this machine
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for status, good in ((200, True), (401, True), (503, False)):
        with _server(status) as (port, asked):
            check = _mlflow(f"http://me:hid-den@127.0.0.1:{port}")
        assert (check.good, asked) == (good, [("/health", "")])
        assert f"http://127.0.0.1:{port}" in check.found
    assert "HTTP 503" in check.found


def test_an_mlflow_server_that_is_not_there_is_no_ok_and_keeps_no_run_from_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    check = _mlflow(f"http://me:hid-den@127.0.0.1:{port}")
    assert not check.good
    assert not check.needed
    assert check.found.startswith(f"no MLflow server answers at http://127.0.0.1:{port} (")
    assert "hid-den" not in check.found
    assert not _mlflow("http://[").good
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", "/nowhere/ca.pem")
    assert "No such file" in _mlflow(f"https://127.0.0.1:{port}").found
    monkeypatch.setenv("MLFLOW_TRACKING_INSECURE_TLS", "true")
    assert "No such file" not in _mlflow(f"https://127.0.0.1:{port}").found
    assert _mlflow("sqlite:////somewhere/mlflow.db").good
