"""The service's routes: NeMo Gym's `/verify` and `/seed_session`, `/verdict` for our own client, and `/health`.

Bodies are not parsed here: bytes go to a process that grades and come back as the reply.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from pivotrl_core.errors import ConfigError
from pivotrl_core.service.pool import Graders, QueueFullError
from pivotrl_core.service.queue_limits import QueueLimits
from pivotrl_core.service.wire import HEALTH_ROUTE, VERDICT_ROUTE, encode
from pivotrl_core.service.work import (
    BAD_REQUEST,
    BUSY,
    ROW_ROUTE,
    GradingWorker,
    Job,
    Reply,
    WorkerSettings,
    error_reply,
)

UNAUTHORISED, TIMED_OUT, TOO_LARGE = 401, 408, 413
READ_SECONDS = 60.0
RETRY_SECONDS = 1


class _TooLargeError(Exception):
    """A body above the limit."""


def make_app(settings: WorkerSettings, processes: int, limits: QueueLimits, token: str = "") -> FastAPI:
    """The service as an application.

    Args:
        settings: what it grades by.
        processes: that grade.
        limits: how much it takes on.
        token: what requests for verdicts must bear; empty: nothing.

    Raises:
        ConfigError: the configuration's verifier cannot be made here, or no header can carry the token.
    """
    if not (token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError("the token of the service has characters that no header can carry; set its variable anew")
    versions = {kind: verifier.version for kind, verifier in GradingWorker(settings).verifiers.items()}
    graders = Graders(settings, processes, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with graders:
            yield

    # Its pages about itself load scripts from elsewhere, and there is nothing to tell of bodies that are not parsed.
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    async def verdict(request: Request) -> Response:
        return _response(await _answer(graders, request, token))

    app.add_api_route(ROW_ROUTE, verdict, methods=["POST"])
    app.add_api_route(VERDICT_ROUTE, verdict, methods=["POST"])

    @app.post("/seed_session")
    async def seed_session() -> Response:
        return _response(Reply(200, b"{}"))

    @app.get(HEALTH_ROUTE)
    async def health() -> Response:
        state = {"open": graders.open, "answered": graders.answered, "refused": graders.refused}
        told_limits = {"processes": processes, "requests": limits.requests, "body_bytes": limits.body_bytes}
        told = {"status": "ok", "verifiers": versions, "compat": settings.compat, "deaths": graders.deaths}
        return _response(Reply(200, encode({**told, **state, "limits": told_limits})))

    return app


async def _answer(graders: Graders, request: Request, token: str) -> Reply:
    if token and not hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {token}".encode()):
        return error_reply(UNAUTHORISED, "a bearer token is asked for, and this is not the one")
    limit = graders.limits.body_bytes
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isdecimal() and len(declared) < 16 else limit
    if size > limit:
        return error_reply(TOO_LARGE, f"a body of over {limit} bytes")
    try:
        graders.reserve(size)
    except QueueFullError:
        return error_reply(BUSY, "busy; try again")
    try:
        async with asyncio.timeout(READ_SECONDS):
            body = await _read(request, size)
        return await _reply(graders, Job(request.url.path, body), request)
    except _TooLargeError:
        return error_reply(TOO_LARGE, f"a body of over {size} bytes")
    except ClientDisconnect:
        return error_reply(BAD_REQUEST, "the client went away")  # nobody reads it
    except TimeoutError:
        return error_reply(TIMED_OUT, f"the body did not come within {READ_SECONDS:.0f} s")
    finally:
        graders.release(size)


async def _reply(graders: Graders, job: Job, request: Request) -> Reply:
    """The reply, for which a client waits. Raises ClientDisconnect where it does not wait any more."""
    reply, gone = asyncio.create_task(graders.reply(job)), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((reply, gone), return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            raise ClientDisconnect
        return reply.result()
    finally:
        reply.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    count = 0
    async for part in request.stream():
        count += len(part)
        if count > most:
            raise _TooLargeError
        parts.append(part)
    return b"".join(parts)


def _response(reply: Reply) -> Response:
    headers = {"Retry-After": str(RETRY_SECONDS)} if reply.status == BUSY else {}
    return Response(reply.body, reply.status, headers, "application/json")
