"""Flow `nightly`: the main job on a schedule, on what is new since the last one.

It works in a private worktree that starts from what the last nightly left (pulled data and dvc.lock), so that only what
is new is pulled and profiled, and trains from the last good model. Never two at once: the project lock, and the
deployment's own limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow

from flows.chain import Plan, Pull, pull_from_source
from flows.conclusion import Summary
from flows.request import Request
from flows.run import carry_out, name_flow_run, read_request
from flows.session import Session
from flows.terminal import say
from tasks.graph import add, is_changed
from tasks.last_good import has_same_data, keep_good, keep_starts, offer_good
from tasks.settings import find_checkout, find_state
from tasks.worktree import seed_from

_STARTED = "started"  # folder, in what is kept between nights: models that the last one started from


def _name() -> str:
    """The run id with the flow's name before it, as MLflow shows it; a schedule gives none, so it is made here."""
    return f"nightly-{name_flow_run()}"


def _pull_as_marked(session: Session) -> None:
    """Pull from the source; what is gone there is dropped where a pruning pull has left its mark."""
    pull_from_source(session, prune=session.state.prune_mark.is_file())


@flow(name="nightly", flow_run_name=_name, persist_result=False, validate_parameters=False)
def nightly(request: Mapping[str, Any] | None = None, run_id: str = "", checkout: str = "") -> dict[str, Any]:
    """Pull what is new, profile only that, train from the last good model, evaluate, log, report.

    A failure is told once.

    Args:
        request: See `flows.request.Request`.
        run_id: Made from the time where empty.
        checkout: Folder of the checkout (default: the one around the working folder).
    """
    root = Path(checkout) if checkout else find_checkout()
    return carry_out_nightly(root, read_request("nightly", request, run_id, checkout), run_id).to_json()


def carry_out_nightly(
    root: Path, request: Request, run_id: str, pull: Pull = _pull_as_marked, tracked: bool = True
) -> Summary:
    """One nightly run inside its flow."""
    kept = find_state(root).nightly
    request = replace(request, curtail=True)  # nobody looks at a night's histogram, which needs all K samples
    plan = Plan(keep_going=True, prepare=_start_from(kept, remembers=not request.quick))
    seed = kept if (kept / "dvc.lock").is_file() else root
    return carry_out(
        "nightly", request, run_id, str(root), plan, pull, tracked, seed, private=True,
        finish=None if request.quick else _keep_for_next(kept),
    )  # fmt: skip


def _start_from(kept: Path, remembers: bool) -> Callable[[Session], None]:
    """Let training start from the last good models, while the reference policy is the one they stand on.

    Without new data it starts where it started last time, so that what has not changed does not run. A night that
    `remembers` keeps where it started before anything can fail, for arms that do.
    """

    def prepare(session: Session) -> None:
        if is_changed(session.root, "warmup"):
            say("the base policy is about to change: training starts from it, not from the last good model")
            return
        same = has_same_data(session.root, kept)
        if same:
            say("no new data since the last night")
        paths, refused = offer_good(session.root, kept / _STARTED if same else kept, session.config)
        for line in refused:
            say(line)
        if paths:
            add(session.place, paths)
            say(f"training starts from {', '.join(paths)}")
        if remembers and not same:
            keep_starts(session.root, kept / _STARTED, session.config)

    return prepare


def _keep_for_next(kept: Path) -> Callable[[Session], None]:
    """Keep dvc.lock, pulled data and good models for the next night: of all arms, or of those that did not fail."""

    def finish(session: Session) -> None:
        kept.mkdir(parents=True, exist_ok=True)
        # In this order, and after what it started from: a night that was killed between any two is followed by one that
        # restores its results.
        seed_from(session.root, kept)
        session.state.prune_mark.unlink(missing_ok=True)
        good = keep_good(session.root, kept, session.config)
        say(f"good models: {', '.join(good) if good else 'none'}")

    return finish
