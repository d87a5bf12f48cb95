"""Models that a nightly run trains from: those of the last night whose evaluation was good.

The reference policy in force stays `models/base`: it profiles and anchors the KL term, and the kept models descend from
it, so they are offered only while it is the same; and only to training that moves the same parameters, because an
adapter cannot go on from a whole model, nor from an adapter of another rank. In a worktree they lie under `last-good/`,
kept by DVC through a pointer file that goes into the run's record, so that such a run can be reproduced.

A night that finds no new data starts where the last one started, so that nothing has changed and nothing runs: training
on from the newest model again would be a second pass over old data that nobody asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from pivotrl_core.config.folders import BASE_POLICY
from pivotrl_core.config.graph import Graph, load_graph
from pivotrl_core.config.tree import Config
from pivotrl_core.evaluation.scorecard import is_in_domain
from pivotrl_core.files import read_json, write_json, write_text
from pivotrl_core.types import canonical_json
from tasks.dvc_lock import LOCK_NAME, read_lock

STARTS = "last-good"
_INDEX = "last-good.json"
_ASIDE = ".old-"  # before the name of a model that is being replaced


def starts_in(root: Path) -> list[str]:
    """DVC's pointer files of the models that training in `root` starts from."""
    return sorted(path.relative_to(root).as_posix() for path in (root / STARTS).glob("*.dvc"))


def good_arms(report: dict[str, Any]) -> set[str]:
    """Arms compared with base in the domain (success, or accuracy on held-out turns) that no interval puts below it.

    An arm without such a measurement is not good: nobody knows what training on from it would build on.
    """
    compared: set[str] = set()
    worse: set[str] = set()
    for row in report.get("paired", []):
        if not is_in_domain(str(row["metric"])) or "base" not in (row["a"], row["b"]):
            continue
        is_second = row["a"] == "base"
        arm = str(row["b"] if is_second else row["a"])
        compared.add(arm)
        if (row["low"] > 0) if is_second else (row["high"] < 0):
            worse.add(arm)
    return compared - worse


def keep_good(root: Path, folder: Path, config: Config) -> list[str]:
    """Keep the models of `root` whose arms were good. Returns their keys (`pivotrl-0`)."""
    report = root / "reports" / "compare" / "report.json"
    good = good_arms(read_json(report)) if report.is_file() else set()
    graph = _read_graph(root)
    kept: dict[str, Any] = {}
    for key, train in graph.get("trains", {}).items():
        policy = root / graph["evaluates"][key]["policy"]
        if train["arm"] in good and policy.is_dir():
            _replace(folder / STARTS / key, policy)
            kept[key] = _parameters(config, train["arm"])
    index = read_json(folder / _INDEX) if (folder / _INDEX).is_file() else {}
    base = _base(root)
    old = _trained_with(index) if index.get("base") == base else {}
    _write_index(folder, base, {**old, **kept})
    return list(kept)


def _replace(kept: Path, policy: Path) -> None:
    """Put a copy of `policy` in the place of `kept`. A kill at any moment leaves the one or the other (`_recover`)."""
    _recover(kept.parent)
    staging, aside = kept.with_name(f".{kept.name}"), kept.with_name(f"{_ASIDE}{kept.name}")
    shutil.rmtree(staging, ignore_errors=True)
    shutil.copytree(policy, staging)
    if kept.exists():
        kept.rename(aside)
    staging.rename(kept)
    shutil.rmtree(aside, ignore_errors=True)


def _recover(folder: Path) -> None:
    """Models that a kill left aside come back to their places, unless their successors had got there."""
    for aside in folder.glob(f"{_ASIDE}*"):
        kept = folder / aside.name.removeprefix(_ASIDE)
        if kept.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(kept)


def offer_good(root: Path, folder: Path, config: Config) -> tuple[list[str], list[str]]:
    """Bring kept models into `root` and let its graph.yaml start from them.

    Nothing is offered where base is not the policy that they were trained on, or where an arm starts from another arm.

    Returns:
        Paths for DVC to keep, and a line for each model that was trained with other parameters than the arm's today.
    """
    index = read_json(folder / _INDEX) if (folder / _INDEX).is_file() else {"base": ""}
    if not index["base"] or index["base"] != _base(root):
        return [], []
    _recover(folder / STARTS)
    graph = _read_graph(root)
    paths, lines = [], []
    for key, trained in _trained_with(index).items():
        train = graph.get("trains", {}).get(key)
        if not train or train["start"] != BASE_POLICY or not (folder / STARTS / key).is_dir():
            continue
        if trained != (now := _parameters(config, train["arm"])):
            lines.append(
                f"{key}: starts from the base policy, because its last good model was trained with "
                f"{'unknown parameters' if trained is None else canonical_json(trained)}, not {canonical_json(now)}"
            )
            continue
        shutil.copytree(folder / STARTS / key, root / STARTS / key, dirs_exist_ok=True)
        train["start"] = f"{STARTS}/{key}"
        paths.append(train["start"])
    write_text(root / "graph.yaml", str(yaml.safe_dump(graph, sort_keys=False, allow_unicode=True)))
    return paths, lines


def keep_starts(root: Path, folder: Path, config: Config) -> None:
    """Keep what training in `root` started from, to be offered again to a night that finds no new data."""
    _write_index(folder, "", {})  # offers nothing, until all is there
    shutil.rmtree(folder / STARTS, ignore_errors=True)
    trains = _read_graph(root).get("trains", {})
    # Only a model of the same parameters is started from, so those of today are those that it was trained with.
    kept = {
        key: _parameters(config, train["arm"]) for key, train in trains.items() if train["start"] == f"{STARTS}/{key}"
    }
    for key in kept:
        shutil.copytree(root / STARTS / key, folder / STARTS / key)
    _write_index(folder, _base(root), kept)


def has_same_data(root: Path, folder: Path) -> bool:
    """Whether the data pulled into `root` are those of the run whose dvc.lock lies in `folder`."""
    own, other = (read_lock(place / LOCK_NAME) for place in (root, folder))
    return "pull" in own and "pull" in other and own["pull"].outs == other["pull"].outs


def _write_index(folder: Path, base: str, parameters: dict[str, Any]) -> None:
    write_json(folder / _INDEX, {"base": base, "keys": sorted(parameters), "parameters": parameters})


def _trained_with(index: dict[str, Any]) -> dict[str, Any]:
    """`train.parameters` of each kept model; None where an index of an earlier version does not say."""
    return {key: index.get("parameters", {}).get(key) for key in index["keys"]}


def _parameters(config: Config, arm: str) -> dict[str, Any]:
    """Which parameters an arm trains, as plain values."""
    train = config.arms[arm].train
    return {} if train is None else train.parameters.model_dump(mode="json")


def _base(root: Path) -> str:
    """Hash of the base policy that dvc.lock names; empty where there is none."""
    outs: Iterable[tuple[str, str]] = (
        item for one in read_lock(root / LOCK_NAME).values() for item in one.outs.items()
    )
    return dict(outs).get(BASE_POLICY, "")


def _read_graph(root: Path) -> Graph:
    return load_graph(root / "graph.yaml")
