"""A Prefect API for the time of one command, where PREFECT_API_URL names none.

Prefect starts such a server itself, but leaves it running when its parent is killed; ours is guarded and dies with us.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import ConfigError, TemporaryError
from pivotrl_core.processes import end_guarded, last_lines
from tasks.confidential import without_keys
from tasks.settings import State
from tasks.supervision import Limits, start_guarded

API_VARIABLE = "PREFECT_API_URL"


class ServerStartError(TemporaryError):
    """A local server did not become healthy in time."""


class ServerUnreachableError(TemporaryError):
    """No Prefect server answers where PREFECT_API_URL says that there is one."""


def require_api(url: str, patience: float = 30.0) -> None:
    """Nothing, where the Prefect API of PREFECT_API_URL answers.

    A refusal, or a certificate that only Prefect's own settings accept, is an answer too: what to send is Prefect's.

    Args:
        url: What the variable says.
        patience: Seconds that the answer may take.

    Raises:
        ConfigError: It is no HTTP address.
        ServerUnreachableError: Nobody answers there, or only with an error of the server's.
    """
    address = without_credentials(url)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{API_VARIABLE}: {address!r} is no HTTP address; set one, such as http://127.0.0.1:4200/api")
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=patience):  # noqa: S310 - checked above
            return
    except urllib.error.HTTPError as error:
        if error.code < 500:
            return
        found = f"HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return
        found = str(reason) or type(reason).__name__
    raise ServerUnreachableError(
        f"no Prefect server answers at {address}, which {API_VARIABLE} names ({found}); "
        "start it (`prefect server start`), or correct or unset the variable"
    )


@contextmanager
def prefect_api(state: State, patience: float = 180.0) -> Iterator[str]:
    """URL of a Prefect API that answers while the block runs; the one that PREFECT_API_URL names, or our own.

    Args:
        state: Logs and database lie below it.
        patience: Seconds that an own server may take to start.

    Raises:
        ConfigError: PREFECT_API_URL is no address.
        TemporaryError: Nobody answers there, or our own server does not start.
    """
    named = os.environ.get(API_VARIABLE)
    if named:
        require_api(named)
        yield named
        return
    port = free_port()
    log = state.root / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    application = ["--factory", "prefect.server.api.server:create_app", "--lifespan", "on", "--log-level", "error"]
    command = [sys.executable, "-m", "uvicorn", *application, "--host", "127.0.0.1", "--port", str(port)]
    environment = {
        **os.environ,
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    with log.open("ab") as output, start_guarded(command, state.root, environment, output.fileno(), Limits()) as server:
        try:
            url = f"http://127.0.0.1:{port}/api"
            wait_for_http(f"{url}/health", server, log, patience)
            with _api_setting(url):
                try:
                    yield url
                finally:
                    _drain()
        finally:
            end_guarded(server)


def _drain(seconds: float = 15.0) -> None:
    """Let Prefect's background senders finish: states of task runs travel as events, and the server is about to go."""
    if "prefect" in sys.modules:
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogWorker

        EventsWorker.drain_all(timeout=seconds)
        APILogWorker.drain_all(timeout=seconds)


@contextmanager
def _api_setting(url: str) -> Iterator[None]:
    """Make this process (and its children) use the API, also where Prefect's settings have been read already."""
    os.environ[API_VARIABLE] = url
    try:
        with ExitStack() as stack:
            if "prefect" in sys.modules:
                from prefect.settings import PREFECT_API_URL, temporary_settings

                stack.enter_context(temporary_settings({PREFECT_API_URL: url}))
            yield
    finally:
        os.environ.pop(API_VARIABLE, None)


def free_port() -> int:
    """A TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_http(url: str, server: subprocess.Popen[bytes], log: Path, patience: float) -> None:
    """Wait until a URL answers 200.

    Raises:
        ServerStartError: The server ended, or did not answer in time; with the last lines of its log.
    """
    end = time.monotonic() + patience
    failed = f"no answer from {url} within {patience:.0f} s"
    while time.monotonic() < end:
        if (code := server.poll()) is not None:
            failed = f"the server that was to answer at {url} ended at its start (exit {code})"
            break
        try:
            with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310 - our own http URL
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    detail = without_keys("\n".join(last_lines(log, 5)))
    raise ServerStartError(f"{failed}; the server's output is in {log}\n{detail}")
