"""The service of verdicts on a port of its own, in a thread of this process; its graders are real processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from pivotrl_core.service.app import make_app
from pivotrl_core.service.queue_limits import QueueLimits
from pivotrl_core.service.work import WorkerSettings


@contextmanager
def service(
    worker_settings: WorkerSettings, processes: int = 1, limits: QueueLimits | None = None, token: str = ""
) -> Iterator[str]:
    """Its address, while the block lasts."""
    app = make_app(worker_settings, processes, limits or QueueLimits(), token)
    settings = uvicorn.Config(app, "127.0.0.1", 0, log_level="error", access_log=False, ws="none")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the service ended before it was there")
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
