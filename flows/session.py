"""Where one flow run works: the checkout itself, or a private worktree where it overrides anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows import quick
from flows.parameters import complete_parameters, require_parameters
from flows.request import Request, read_values, values_text
from flows.terminal import say
from pivotrl_core.config.graph import check_served, derive_graph, graph_text, write_graph
from pivotrl_core.config.inputs import HubModel
from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from tasks.confidential import parameter_that_holds_key
from tasks.graph import Workplace, restore
from tasks.leftovers import remove_leftovers
from tasks.project_lock import hold_lock
from tasks.provenance import Snapshot, take_snapshot
from tasks.settings import State, child_environment, dvc_cache, find_state
from tasks.sweepers import sweep_dead
from tasks.worktree import private_worktree, seed_from


@dataclass(frozen=True, slots=True)
class Session:
    """One flow run at work. `checkout` is the user's; stages run in `place.root`; `notice` heads what people read."""

    flow: str
    run_id: str
    checkout: Path
    state: State
    config: Config
    snapshot: Snapshot
    place: Workplace
    notice: str = ""

    @property
    def root(self) -> Path:
        """Checkout or worktree that the stages work in."""
        return self.place.root

    @property
    def folder(self) -> Path:
        """Logs, figures and HTML report of this run; outlives a worktree."""
        return self.state.runs / self.run_id


def load_request(checkout: Path, request: Request) -> tuple[Mapping[str, object], Config]:
    """Parameter values and configuration of a request. Raises ConfigError before anything runs."""
    path = request.file(checkout)
    values = request.apply(read_values(path))
    config = parse_config(values, str(path))
    check_served(config)
    return values, config


def _refuse_keys(snapshot: Snapshot, values: Mapping[str, object]) -> None:
    """Raise ConfigError where parameters hold a key: they are recorded and shown, whatever else is left out."""
    where = parameter_that_holds_key(values)
    if where is None and any(name.startswith("params.yaml (") for name in snapshot.left_out):
        where = "params.yaml"
    if where is not None:
        raise ConfigError(
            f"{where}: a key or a password stands there, and every run's record has its parameters; take it out, "
            "comments too, and set the variable of the environment that is read for it (what only looks like one, in a "
            "change of params.yaml, is taken once it is committed)"
        )


@contextmanager
def open_session(
    flow: str, checkout: Path, request: Request, run_id: str, seed: Path | None = None, private: bool | None = None
) -> Iterator[Session]:
    """Hold the project lock, sweep what dead runs left, and give a place to work in.

    Args:
        flow: Name of the flow.
        checkout: The user's checkout.
        request: What to override.
        run_id: Of this flow run.
        seed: Folder whose dvc.lock and pulled data a worktree starts from (default: the checkout).
        private: Work in a worktree (default: where the request overrides anything).
    """
    load_request(checkout, request)
    state = find_state(checkout)
    with hold_lock(state.lock, run_id, say=say):
        values, config = load_request(checkout, request)  # the file may have changed while we waited
        for line in request.fit(read_values(request.file(checkout)))[1]:
            say(line)
        for line in sweep_dead(checkout, state):
            say(f"left by a dead run: {line}")
        snapshot = take_snapshot(checkout)
        _refuse_keys(snapshot, values)
        if snapshot.left_out:
            say(f"not in the run's record: {', '.join(snapshot.left_out)}")

        def session_in(root: Path) -> Session:
            return Session(
                flow, run_id, checkout=checkout, state=state, config=config, snapshot=snapshot,
                place=_workplace(root, state, config, run_id), notice=quick.WARNING if request.quick else "",
            )  # fmt: skip

        if not (private if private is not None else not request.is_plain):
            if write_graph(config, checkout / "graph.yaml"):
                say("graph.yaml: written anew from params.yaml")
            require_parameters(checkout, config)
            for path in remove_leftovers(checkout, derive_graph(config), dvc_cache(checkout)):
                say(f"{path}: left the graph, removed here (DVC's cache has it)")
            yield session_in(checkout)
            return
        files = {"params.yaml": values_text(values), "graph.yaml": graph_text(config)}
        with private_worktree(checkout, state, run_id, snapshot, files) as root:
            seed_from(seed or checkout, root)
            complete_parameters(root, values, config)
            session = session_in(root)
            restore(session.place)
            yield session


def _workplace(root: Path, state: State, config: Config, run_id: str) -> Workplace:
    offline = not isinstance(config.model, HubModel) and "HF_HUB_OFFLINE" not in os.environ
    logs = state.runs / run_id / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    return Workplace(root, child_environment(root, state, offline=offline), logs)
