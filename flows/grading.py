"""`pivotrl serve-verifier`: verdicts over HTTP, for machines whose processors have better things to do."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.request import Request
from flows.session import load_request
from flows.verifying import COMPAT, check_options
from pivotrl_core.errors import ConfigError
from pivotrl_core.service.queue_limits import QueueLimits
from pivotrl_core.stages.context import Places, pulled_workspaces
from pivotrl_core.verifiers.rows import DOMAINS
from tasks.settings import apply_environment, find_checkout, find_state, main_checkout

if TYPE_CHECKING:
    from pivotrl_core.config.tree import Config
    from pivotrl_core.service.work import WorkerSettings

TOKEN_VARIABLE = "PIVOTRL_SERVICE_TOKEN"  # noqa: S105 - the name of one
KEEP_ALIVE_SECONDS = 75


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service listens. Port 0: one that is free."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """As a client names it."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Rows:
    """How rows at `/verify` are judged: see `verify_file`. `workspaces`: folder that their workspaces lie in."""

    domain: str = ""
    compat: str = ""
    workspaces: Path | None = None


def serve_verifier(address: Address, processes: int, rows: Rows, request: Request, limits: QueueLimits) -> None:
    """Serve until ended by a signal.

    Args:
        address: Host and port.
        processes: That grade; 0: one for each processor.
        rows: How rows are judged.
        request: Which parameters the verifier is made from.
        limits: How much the service takes on.

    Raises:
        ConfigError: no such domain or compatibility, the verifier cannot be made here, or the address is not free.
    """
    from pivotrl_core.service.app import make_app

    check_options(rows.domain, rows.compat)
    root = find_checkout()
    state = find_state(root)
    apply_environment(state)
    _, config = load_request(root, request)
    variable = config.verifier.service.token_variable if config.verifier.service else TOKEN_VARIABLE
    token = os.environ.get(variable, "")
    places = Places(main_checkout(root), state.store, pulled_workspaces(root))
    settings = worker_settings(config, places, rows)
    processes = processes or len(os.sched_getaffinity(0))
    with _listening(address) as sockets:
        app = make_app(settings, processes, limits, token)
        _warn(address, variable, token)
        bound = Address(address.host, sockets[0].getsockname()[1])
        print(f"verdicts at {bound.url}, {processes} processes; Ctrl-C ends it", flush=True)
        _serve(app, sockets)


def worker_settings(config: Config, places: Places, rows: Rows) -> WorkerSettings:
    """What processes that grade are made from: the verifiers of a configuration, on this machine."""
    from pivotrl_core.service.work import WorkerSettings
    from pivotrl_core.stages.verification import PAID_FOR, verifier_here

    return WorkerSettings(
        make_verifier=partial(verifier_here, config, places),
        cache=places.store / PAID_FOR,
        pulled=places.workspaces,
        domain=DOMAINS.get(rows.domain, ""),
        compat=rows.compat == COMPAT,
        workspaces=rows.workspaces,
    )


@contextmanager
def _listening(address: Address) -> Iterator[list[socket.socket]]:
    """Sockets at every address of the host, all with one port: who connects from now on waits for the service.

    Raises:
        ConfigError: no such host, or somebody else listens there.
    """
    sockets: list[socket.socket] = []
    with ExitStack() as opened:
        try:
            places = socket.getaddrinfo(
                address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, place in dict.fromkeys(places):
                port = sockets[0].getsockname()[1] if sockets else address.port
                where: Any = (place[0], port, *place[2:])
                sockets.append(opened.enter_context(socket.create_server(where, family=family)))
        except OSError as error:
            raise ConfigError(
                f"nothing can listen at {address.url} ({error.strerror or error}); choose another --host or --port"
            ) from error
        yield sockets


def _serve(app: Any, sockets: list[socket.socket]) -> None:
    import uvicorn

    server = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="none", timeout_keep_alive=KEEP_ALIVE_SECONDS
    )
    uvicorn.Server(server).run(sockets=sockets)


def _warn(address: Address, variable: str, token: str) -> None:
    if not token and not _is_loopback(address.host):
        print(
            f"warning: whoever reaches {address.host} may ask for verdicts, and have the service work; "
            f"set a token in {variable}",
            file=sys.stderr,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
