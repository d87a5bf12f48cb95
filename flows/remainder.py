"""What a sweep or a night does where some arms failed: it compares and records the others, without them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from flows.chain import ChainFailedError, bring_all
from flows.conclusion import Summary, conclude
from flows.parameters import PARAMETERS
from flows.request import read_values, values_text
from flows.session import Session
from flows.terminal import say
from pivotrl_core.config.graph import derive_graph, load_graph
from pivotrl_core.config.loading import parse_config
from pivotrl_core.errors import PivotRLError
from pivotrl_core.files import write_text
from tasks.graph import query_graph
from tasks.tracking.flow_run import Recording


def conclude_others(session: Session, recording: Recording, failure: ChainFailedError) -> Summary | None:
    """Compare and record the arms that a failure left whole, in the private worktree of `session`.

    An arm of which one seed failed is left out with all its seeds: its mean would be one over fewer of them.

    Returns:
        What came out; None where base failed or no trained arm is left, or where the comparison failed in its turn.
    """
    lost = lost_arms(load_graph(session.root / "graph.yaml"), [*failure.errors, *failure.skipped])
    arms = {name: arm for name, arm in session.config.arms.items() if name not in lost}
    if not lost or "base" in lost or all(arm.train is None for arm in arms.values()):
        return None
    notice = f"failed, and not in this comparison: {', '.join(lost)}"
    say(notice)
    try:
        others = _leave_out(session, lost)
        outcomes = {name: one for name, one in failure.outcomes.items() if name in _stages(others.root)}
        bring_all(others, recording, outcomes)
        others = replace(others, notice="; ".join(filter(None, [session.notice, notice])))
        recording.config = others.config
        summary = conclude(others, recording, outcomes, {**dict.fromkeys(failure.errors, "failed"),
                                                         **dict.fromkeys(failure.skipped, "not run")})  # fmt: skip
    except PivotRLError as error:
        say(f"the other arms could not be compared: {error}")
        return None
    say(f"the other arms:\n{summary.text()}")
    return summary


def lost_arms(graph: dict[str, Any], stages: list[str]) -> list[str]:
    """The arms that stages belong to, in the order of the graph."""
    keys = {f"{group}@{key}": entry.get("arm") for group, entries in _groups(graph) for key, entry in entries.items()}
    lost = {keys.get(name) for name in stages}
    return [arm for arm in dict.fromkeys(keys.values()) if arm is not None and arm in lost]


def _groups(graph: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(group.removesuffix("s"), entries) for group, entries in graph.items() if group != "compares"]


def _leave_out(session: Session, lost: list[str]) -> Session:
    """Take arms out of the worktree: parameters, graph, and what their stages have written, whole or not."""
    root = session.root
    values = read_values(root / PARAMETERS)
    values["arms"] = {name: arm for name, arm in values["arms"].items() if name not in lost}
    config = parse_config(values, str(root / PARAMETERS))
    old = load_graph(root / "graph.yaml")  # not derived anew: a night lets arms start from kept models
    graph = {group: {key: old[group][key] for key in entries} for group, entries in derive_graph(config).items()}
    before = _stages(root)
    write_text(root / PARAMETERS, values_text(values))
    write_text(root / "graph.yaml", str(yaml.safe_dump(graph, sort_keys=False, allow_unicode=True)))
    for name in before.keys() - _stages(root).keys():
        for out in before[name]:
            _remove(root / out)
    return replace(session, config=config)


def _stages(root: Path) -> dict[str, tuple[str, ...]]:
    """Outputs of each stage of the graph."""
    return {status.name: status.outs for status in query_graph(root)}


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
