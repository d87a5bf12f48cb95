"""A failure is told once, and the webhook's URL is never shown."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tasks.notify import tell_failure


def test_a_failure_is_posted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[dict[str, str]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("PIVOTRL_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret-part")
        assert tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
        assert not tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
        server.shutdown()
        thread.join()
    assert bodies == [{"text": "nightly run-1 failed: it broke", "run_id": "run-1", "flow": "nightly"}]


def test_a_webhook_that_does_not_work_raises_nothing_and_shows_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for url in ("http://127.0.0.1:9/secret-part", "no url at all secret-part"):
        monkeypatch.setenv("PIVOTRL_WEBHOOK", url)
        assert tell_failure(f"run-{len(url)}", "run", "it broke", tmp_path / str(len(url)))
    assert "did not take the message" in caplog.text
    assert "secret-part" not in caplog.text
