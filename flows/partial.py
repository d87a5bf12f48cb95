"""What a run that keeps going still compares after failures: the arms that none of them touched.

The private worktree gets parameters and graph without the others, so that the comparison and the record are those of a
run that never had them. A failed stage that all arms share leaves nothing to compare.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flows.request import read_values, values_text
from flows.session import Session
from pivotrl_core.config.graph import Graph, derive_graph, load_graph, stage_entries
from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_text
from tasks.leftovers import remove_leftovers

_AFTER_ALL = "compare"


def without_failed(session: Session, failed: Iterable[str]) -> Session | None:
    """The session without the arms that failed; its worktree is changed so.

    Args:
        session: One in a private worktree.
        failed: Stages that failed, or were not run because of one that did.

    Returns:
        None where no two arms are left, or what all arms share has failed.
    """
    graph = load_graph(session.root / "graph.yaml")
    found = [_arms_of(graph, stage) for stage in failed if stage != _AFTER_ALL]
    if not found or not all(found):
        return None
    arms = set().union(*found)
    path = session.root / "params.yaml"
    values = read_values(path)
    values["arms"] = {name: arm for name, arm in values["arms"].items() if name not in arms}
    if len(values["arms"]) < 2:
        return None
    try:
        config = parse_config(values, str(path))
    except ConfigError:  # an arm that is left is told by one that is not
        return None
    write_text(path, values_text(values))
    reduced = _reduced(graph, config)
    write_text(session.root / "graph.yaml", values_text(reduced))
    remove_leftovers(session.root, reduced)
    return replace(session, config=config)


def _arms_of(graph: Graph, stage: str) -> set[str]:
    """The arms that need a stage; none where it is no arm's own."""
    group, _, key = stage.partition("@")
    if group == "profile":
        return {one["arm"] for one in graph.get("selects", {}).values() if one["profile"] == key}
    entry = stage_entries(graph).get(group, {}).get(key)
    return {entry["arm"]} if entry else set()


def _reduced(graph: Graph, config: Config) -> Graph:
    """The graph of fewer arms, with its entries as they are: those of a nightly start from kept models."""
    derived = derive_graph(config)
    return {
        **derived,
        "profiles": {key: graph["profiles"][key] for key in derived["profiles"]},
        "selects": {key: graph["selects"][key] for key in derived["selects"]},
        "trains": {key: graph["trains"][key] for key in derived["trains"]},
        "evaluates": {key: graph["evaluates"][key] for key in derived["evaluates"]},
    }
