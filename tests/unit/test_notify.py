"""A failure is told once, and the webhook's URL is never shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tasks.notify import tell_again, tell_failure


class Webhook(HTTPServer):
    """A webhook on a port of its own that answers with `status` and keeps what it took."""

    def __init__(self) -> None:
        self.status, self.bodies = 204, list[dict[str, str]]()
        server = self

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if server.status == 204:
                    server.bodies.append(body)
                self.send_response(server.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Hook)


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("PIVOTRL_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret-part")
        yield server
        server.shutdown()
        thread.join()


def test_a_failure_is_posted_once(tmp_path: Path, webhook: Webhook) -> None:
    assert tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
    assert not tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
    tell_again(tmp_path)
    assert webhook.bodies == [{"text": "nightly run-1 failed: it broke", "run_id": "run-1", "flow": "nightly"}]


def test_a_message_that_the_webhook_did_not_take_is_posted_again_until_it_is_taken_once(
    tmp_path: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.status = 503
    assert tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
    assert not tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
    tell_again(tmp_path)
    webhook.status = 204
    assert webhook.bodies == []
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("PIVOTRL_WEBHOOK")
        tell_again(tmp_path)  # by hand, where nobody has named the webhook: the message stays
    tell_again(tmp_path)
    tell_again(tmp_path)
    assert not tell_failure("run-1", "nightly", "it broke", tmp_path / "run-1")
    assert webhook.bodies == [{"text": "nightly run-1 failed: it broke", "run_id": "run-1", "flow": "nightly"}]
    assert caplog.text.count("nightly run-1 failed") == 1


def test_a_webhook_that_does_not_work_raises_nothing_and_shows_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for url in ("http://127.0.0.1:9/secret-part", "no url at all secret-part"):
        monkeypatch.setenv("PIVOTRL_WEBHOOK", url)
        assert tell_failure(f"run-{len(url)}", "run", "it broke", tmp_path / str(len(url)))
        tell_again(tmp_path)
    assert "did not take the message" in caplog.text
    assert "secret-part" not in caplog.text
