"""What a process of the service does: it reads requests, grades, and writes replies, all in bytes.

Nothing that a request holds ends the process; what nobody foresaw is a reply with status 500.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path

from pivotrl_core.errors import DataError, PivotRLError, TemporaryError
from pivotrl_core.service.wire import VERDICT_ROUTE, digest, encode, read_question, verdict_json
from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.types import Json
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.row_fields import Grounds
from pivotrl_core.verifiers.rows import verify_row
from pivotrl_core.verifiers.settings import VerifierKind
from pivotrl_core.verifiers.verdict_cache import VerdictCache

log = logging.getLogger(__name__)
ROW_ROUTE = "/verify"
TOO_DEEP = "nested too deeply to be read"
BAD_REQUEST, UNPROCESSABLE, FAILED, BUSY = 400, 422, 500, 503


@dataclass(frozen=True, slots=True)
class Job:
    """A request: where it goes, and its body."""

    route: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A status of HTTP, and a body of JSON."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What all processes of a service are made from. It travels to them, so the function must be one of a module.

    Attributes:
        make_verifier: gives the verifier of a kind that answers at `/verdict`.
        cache: file of verdicts that were paid for.
        pulled: folder of the workspaces that candidates at `/verdict` name; None: nothing is executed in one.
        domain: of all rows at `/verify`; empty: by what each row carries.
        compat: rows get the rewards of NeMo Gym's own servers.
        workspaces: folder that the workspaces of rows lie in; None: nothing is executed in one.
    """

    make_verifier: Callable[[VerifierKind], Verifier]
    cache: Path
    pulled: Path | None = None
    domain: str = ""
    compat: bool = False
    workspaces: Path | None = None


@dataclass(slots=True)
class GradingWorker:
    """The verifiers of one process."""

    settings: WorkerSettings
    verifiers: Mapping[str, Verifier] = field(init=False)
    cache: VerdictCache = field(init=False)
    grounds: Grounds = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.verifiers = {str(kind): settings.make_verifier(kind) for kind in VerifierKind}
        self.cache = VerdictCache(settings.cache)
        self.grounds = Grounds(settings.pulled)

    def reply(self, job: Job) -> Reply:
        """The reply to one request. Never raises."""
        answer: Callable[[Job, Json], Json] = self._verdict if job.route == VERDICT_ROUTE else self._row
        try:
            return Reply(200, encode(answer(job, _decode(job.body))))
        except _NotJsonError as error:
            return error_reply(BAD_REQUEST, str(error))
        except DataError as error:
            return error_reply(UNPROCESSABLE, str(error))
        except RecursionError:
            return error_reply(BAD_REQUEST, TOO_DEEP)
        except TemporaryError as error:  # of a judge: no verdict now
            return error_reply(BUSY, str(error))
        except PivotRLError as error:
            return error_reply(FAILED, str(error))
        except Exception as error:  # one request must not end what answers all others
            log.exception("a request to %s failed", job.route)
            return error_reply(FAILED, f"{type(error).__name__} while grading")

    def _verdict(self, job: Job, body: Json) -> Json:
        try:
            kind, candidate, action = read_question(body)
            verifier = self.verifiers[kind]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"no question for a verdict: {type(error).__name__} {error}") from error
        verdict = verifier.verify(candidate, action)
        return {
            "verdict": verdict_json(verdict), "version": verifier.version, "ground": self.grounds.of(candidate),
            "request": digest(job.body),
        }  # fmt: skip

    def _row(self, _: Job, body: Json) -> Json:
        settings = self.settings
        verdict = verify_row(body, settings.domain, settings.compat, settings.workspaces, cache=self.cache)
        return {**body, **verdict}


class _NotJsonError(Exception):
    """A body that is no JSON."""


def _decode(body: bytes) -> Json:
    try:
        return decode_json(body.decode("utf-8"))
    except RecursionError:
        raise _NotJsonError(TOO_DEEP) from None
    except ValueError as error:
        raise _NotJsonError(f"not JSON: {str(error)[:200]}") from None


def error_reply(status: int, text: str) -> Reply:
    """A reply that says what is wrong."""
    return Reply(status, encode({"error": text[:500]}))


_worker: GradingWorker | None = None


def start_worker(settings: WorkerSettings) -> None:
    """Make this process ready. It ends with the one that started it, however that ends."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = GradingWorker(settings)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def reply_all(jobs: Sequence[Job]) -> list[Reply]:
    """Replies to a batch, in its order."""
    assert _worker is not None
    return [_worker.reply(job) for job in jobs]
