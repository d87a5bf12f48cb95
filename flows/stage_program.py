"""`pivotrl stage NAME --key KEY`: the plain program that DVC runs for one stage. Knows neither Prefect nor MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import StageContext
from tasks.scratch import stage_scratch
from tasks.settings import find_state, main_checkout

Program = Callable[[StageContext, str, Mapping[str, Any]], None]

GROUPS = {"profile": "profiles", "select": "selects", "train": "trains", "evaluate": "evaluates"}


def run_stage_program(root: Path, name: str, key: str = "") -> None:
    """Run one stage in a checkout or worktree.

    Args:
        root: Its inputs and outputs lie below it.
        name: Of the stage, without its key.
        key: Which of the group's entries in graph.yaml, for stages that have one.
    """
    programs = {
        "warmup": _warmup, "candidates": _candidates, "profile": _profile, "select": _select, "train": _train,
        "evaluate": _evaluate, "compare": _compare,
    }  # fmt: skip
    if name not in programs:
        raise ConfigError(f"stage {name!r}: unknown; one of {', '.join(programs)}")
    graph = _read_graph(root)
    entry = _entry(graph, name, key)
    config, state = load_config(root / "params.yaml"), find_state(root)
    with stage_scratch(root, state, f"{name}@{key}" if key else name) as scratch:
        programs[name](StageContext(config, root, scratch, state.store, state.models, main_checkout(root)), key, entry)


def _read_graph(root: Path) -> dict[str, Any]:
    import yaml

    path = root / "graph.yaml"
    if not path.is_file():
        raise ConfigError(f"{path}: not found; `pivotrl graph` writes it from params.yaml")
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def _entry(graph: Mapping[str, Any], name: str, key: str) -> Mapping[str, Any]:
    if name not in GROUPS:
        return graph
    entries: Mapping[str, Any] = graph.get(GROUPS[name]) or {}
    if key not in entries:
        raise ConfigError(f"stage {name}: --key {key!r} is not in graph.yaml; one of {', '.join(entries)}")
    return dict(entries[key])


def _warmup(context: StageContext, _key: str, _entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.warmup import run_warmup

    run_warmup(context)


def _candidates(context: StageContext, _key: str, _entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.candidates import run_candidates

    run_candidates(context)


def _profile(context: StageContext, key: str, entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.profile import run_profile

    run_profile(context, key, entry["policy"])


def _select(context: StageContext, key: str, entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.select import run_select

    run_select(context, key, entry["arm"], entry["profile"])


def _train(context: StageContext, _key: str, entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.train import run_train

    run_train(context, entry["arm"], entry["seed"], entry["start"], entry["pool"])


def _evaluate(context: StageContext, _key: str, entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.evaluate import run_evaluate

    run_evaluate(context, entry["arm"], entry["seed"], entry["policy"])


def _compare(context: StageContext, _key: str, _graph: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.compare import run_compare

    run_compare(context)
