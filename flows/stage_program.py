"""`pivotrl stage NAME --key KEY`: the plain program that DVC runs for one stage. Knows neither Prefect nor MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from flows.request import Request, read_values
from pivotrl_core.config.folders import BASE_POLICY
from pivotrl_core.config.graph import Graph, TrainEntry, derive_graph, load_graph, stage_entries
from pivotrl_core.config.loading import load_config, parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import StageContext
from tasks.last_good import STARTS
from tasks.memory import prepare_memory
from tasks.scratch import stage_scratch
from tasks.settings import State, find_state, main_checkout
from tasks.shares import follow_share
from tasks.torchrun import check_launched, is_launched, launch, rank


def run_stage_program(root: Path, name: str, key: str = "") -> None:
    """Run one stage in a checkout or worktree; one of several processes starts torchrun, which runs this in each.

    Args:
        root: Its inputs and outputs lie below it.
        name: Of the stage, without its key.
        key: Which of the group's entries in graph.yaml, for stages that have one.

    Raises:
        ConfigError: There is no such stage or key, graph.yaml does not follow from params.yaml, or torchrun started
            another number of processes than the stage has.
        RanksFailedError: One of several processes failed.
    """
    programs = {
        "warmup": _warmup, "candidates": _candidates, "profile": _profile, "select": _select, "train": _train,
        "evaluate": _evaluate, "compare": _compare,
    }  # fmt: skip
    if name not in programs:
        raise ConfigError(f"stage {name!r}: unknown; one of {', '.join(programs)}")
    prepare_memory()
    follow_share()
    graph, config = read_graph(root)
    state, entry = find_state(root), _entry(graph, name, key)
    processes = config.compute.processes if name == "train" else 1
    if is_launched():
        check_launched(processes)
    elif processes > 1:
        launch(processes, "flows.cli", ["stage", name, "--key", key])
        return
    with _scratch(root, state, f"{name}@{key}" if key else name) as scratch:
        programs[name](
            StageContext(
                config, root, scratch=scratch, store=state.store, models=state.models, checkout=main_checkout(root)
            ),
            key,
            entry,
        )


def _scratch(root: Path, state: State, name: str) -> AbstractContextManager[Path]:
    """The scratch folder, which the first rank alone works in."""
    return stage_scratch(root, state, name) if rank() == 0 else nullcontext(state.scratch)


def read_graph(root: Path) -> tuple[Graph, Config]:
    """graph.yaml, and the configuration that it follows from.

    Raises:
        ConfigError: There is none, it is not readable, or it follows from other arms and seeds than params.yaml has.
    """
    path = root / "graph.yaml"
    if not path.is_file():
        raise ConfigError(f"{path}: not found; `pivotrl graph` writes it from params.yaml")
    graph = load_graph(path)
    return graph, _config_of(graph, root / "params.yaml")


def _config_of(graph: Graph, params: Path) -> Config:
    """The configuration that graph.yaml follows from: with all arms (`pivotrl graph`), or with those that a flow runs.

    A flow leaves out arms that the trajectories have no environment for.
    """
    derived = _from_base(graph)
    config = load_config(params)
    if derived == derive_graph(config):
        return config
    config = parse_config(Request().apply(read_values(params)), str(params))
    if derived == derive_graph(config):
        return config
    raise ConfigError(
        "graph.yaml does not follow from the arms and seeds of params.yaml; `pivotrl graph` writes it anew"
    )


def _from_base(graph: Graph) -> Graph:
    """graph.yaml as it derives: a nightly run lets arms that start from base go on from a kept model of their own."""
    result = graph.copy()
    trains = graph.get("trains")
    if isinstance(trains, dict):  # it is not, or an entry is not, in a file that somebody edited
        result["trains"] = {key: _train_from_base(key, train) for key, train in trains.items()}
    return result


def _train_from_base(key: str, train: TrainEntry) -> TrainEntry:
    kept = isinstance(train, dict) and train.get("start") == f"{STARTS}/{key}"
    return {**train, "start": BASE_POLICY} if kept else train


def _entry(graph: Graph, name: str, key: str) -> Mapping[str, Any]:
    groups = stage_entries(graph)
    if name not in groups:
        if key:
            raise ConfigError(f"stage {name}: takes no --key, found {key!r}; only {', '.join(groups)} take one")
        return {}
    entries = groups[name]
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


def _compare(context: StageContext, _key: str, _entry: Mapping[str, Any]) -> None:
    from pivotrl_core.stages.compare import run_compare

    run_compare(context)
