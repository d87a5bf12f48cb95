"""`pivotrl serve-verifier`: verdicts over HTTP, for machines whose processors have better things to do."""

from __future__ import annotations

import ipaddress
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from flows.request import Request
from flows.session import load_request
from flows.verifying import COMPAT, check_options
from pivotrl_core.service.room import Room
from pivotrl_core.stages.context import Places, pulled_workspaces
from pivotrl_core.verifiers.rows import DOMAINS
from tasks.settings import apply_environment, find_checkout, find_state, main_checkout

TOKEN_VARIABLE = "PIVOTRL_SERVICE_TOKEN"  # noqa: S105 - the name of one
KEEP_ALIVE_SECONDS = 75


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Rows:
    """How rows at `/verify` are judged: see `verify_file`. `workspaces`: folder that their workspaces lie in."""

    domain: str = ""
    compat: str = ""
    workspaces: Path | None = None


def serve_verifier(address: Address, processes: int, rows: Rows, request: Request, room: Room) -> None:
    """Serve until ended by a signal.

    Args:
        address: Host and port.
        processes: That grade; 0: one for each processor.
        rows: How rows are judged.
        request: Which parameters the verifier is made from.
        room: How much the service takes on.

    Raises:
        ConfigError: no such domain or compatibility, or the verifier cannot be made here.
    """
    import uvicorn

    from pivotrl_core.service.app import make_app
    from pivotrl_core.service.work import Duties

    check_options(rows.domain, rows.compat)
    root = find_checkout()
    state = find_state(root)
    apply_environment(state)
    _, config = load_request(root, request)
    variable = config.verifier.service.token_variable if config.verifier.service else TOKEN_VARIABLE
    token = os.environ.get(variable, "")
    places = Places(main_checkout(root), state.store, pulled_workspaces(root))
    duties = Duties(config, places, DOMAINS.get(rows.domain, ""), rows.compat == COMPAT, rows.workspaces)
    processes = processes or len(os.sched_getaffinity(0))
    app = make_app(duties, processes, room, token)
    if not token and not _is_loopback(address.host):
        print(
            f"warning: whoever reaches {address.host} may ask for verdicts, and have the service work; "
            f"set a token in {variable}",
            file=sys.stderr,
        )
    print(f"verdicts at http://{address.host}:{address.port}, {processes} processes; Ctrl-C ends it", flush=True)
    server = uvicorn.Config(
        app, address.host, address.port, log_level="warning", access_log=False, ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )  # fmt: skip
    uvicorn.Server(server).run()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
