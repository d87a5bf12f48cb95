"""The graph of stages that follows from arms and seeds: what dvc.yaml's `foreach` groups run over.

DVC cannot nest one interpolation in another, so what depends on an arm's own choices (which policy it starts from,
which profile it selects from) is spelled out in graph.yaml: generated and committed. The flows bring it up to date, and
a stage that finds one which does not follow from params.yaml stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from pivotrl_core.config.arms import Arm, GRPOTrain
from pivotrl_core.config.engine import OpenAIEngineConfig
from pivotrl_core.config.folders import BASE_POLICY, CANDIDATES, EVALUATIONS, MODELS, POOLS, PROFILES, TRAININGS
from pivotrl_core.config.inputs import EmbeddedSource, TrajectorySource
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_text

HEADER = "# Generated from params.yaml (arms, seeds) by `pivotrl graph`. dvc.yaml runs over it. Do not edit.\n"


class ProfileEntry(TypedDict):
    """A profile: the folder of the policy that samples."""

    policy: str


class SelectEntry(TypedDict):
    """A pool: the arm whose rule selects it, and the key of the profile that it is selected from."""

    arm: str
    profile: str


class TrainEntry(TypedDict):
    """A training: the folder of the policy it starts from, the key of its pool, and what it may read (`_reads`)."""

    arm: str
    seed: int
    start: str
    pool: str
    turns: str
    sampling: str


class EvaluateEntry(TypedDict):
    """An evaluation: the folder of the policy."""

    arm: str
    seed: int
    policy: str


class Graph(TypedDict, total=False):
    """graph.yaml: its groups by stage key, and what `compare` and the verifier read (`derive_graph`)."""

    profiles: dict[str, ProfileEntry]
    selects: dict[str, SelectEntry]
    trains: dict[str, TrainEntry]
    evaluates: dict[str, EvaluateEntry]
    compares: dict[str, str]
    rules: str


def policy_folder(arm: str, seed: int) -> str:
    """Where an arm's policy lies, relative to the checkout."""
    return BASE_POLICY if arm == "base" else f"{MODELS}/{arm}/{seed}"


def profile_key(start: str, seed: int) -> str:
    """Name of the profile of the policy that an arm starts from."""
    return "base" if start == "base" else f"{start}-{seed}"


def pool_key(arm: str, start: str, seed: int) -> str:
    """Name of an arm's pool: one for all seeds, unless the policy it is selected from has seeds of its own."""
    return arm if start == "base" else f"{arm}-{seed}"


def derive_graph(config: Config) -> Graph:
    """Plain values of graph.yaml: `profiles`, `selects`, `trains`, `evaluates` by stage key, `compares`, `rules`.

    `compares` names the folders that `compare` reads beside the evaluations. DVC has no dependency that is there or
    not, so where no arm trains (base alone), and nothing makes these folders, the evaluations are named once more.
    `rules` is the parameter that says which environment's rules the verifier knows.
    """
    profiles: dict[str, ProfileEntry] = {}
    selects: dict[str, SelectEntry] = {}
    trains: dict[str, TrainEntry] = {}
    evaluates: dict[str, EvaluateEntry] = {}
    for name, arm in config.arms.items():
        for seed in config.seeds:
            evaluates[f"{name}-{seed}"] = {"arm": name, "seed": seed, "policy": policy_folder(name, seed)}
            if arm.train is None:
                continue
            start = arm.train.start
            profile, pool = profile_key(start, seed), pool_key(name, start, seed)
            policy = policy_folder(start, seed)
            profiles[profile] = {"policy": policy}
            selects[pool] = {"arm": name, "profile": profile}
            turns, sampling = _reads(name, arm, pool)
            trains[f"{name}-{seed}"] = {
                "arm": name, "seed": seed, "start": policy, "pool": pool, "turns": turns, "sampling": sampling,
            }  # fmt: skip
    folders = {"pools": POOLS, "profiles": PROFILES, "trains": TRAININGS}
    compares = folders if trains else dict.fromkeys(folders, EVALUATIONS)
    return {
        "profiles": profiles, "selects": selects, "trains": trains, "evaluates": evaluates, "compares": compares,
        "rules": _rules(config.source),
    }  # fmt: skip


def _reads(name: str, arm: Arm, pool: str) -> tuple[str, str]:
    """What training may read: the folder that its turns come from, and the parameters that sampling them depends on.

    An arm that profiles again reads all candidates and the settings of profiles; no other may depend on these, or a
    turn that is in no pool would train it anew. (The arm's rule comes with its pool, whose report has it.) DVC has no
    dependency that is there or not, so for those others one that they have is named twice.
    """
    if isinstance(arm.train, GRPOTrain) and arm.train.reprofile is not None:
        return CANDIDATES, "profile"
    return f"{POOLS}/{pool}", f"arms.{name}.train"


def _rules(source: TrajectorySource) -> str:
    """The key that names the environment, where one does: profiles depend on nothing else of a source."""
    if isinstance(source, EmbeddedSource):
        return "source.domain"
    return "source.environment" if source.environment else "source.kind"


def graph_text(config: Config) -> str:
    """The text of graph.yaml."""
    import yaml

    return HEADER + str(yaml.safe_dump(derive_graph(config), sort_keys=False, allow_unicode=True))


def load_graph(path: Path) -> Graph:
    """The graph in a graph.yaml, empty where it holds no mapping. Raises ConfigError where it is not readable."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable; `pivotrl graph` writes it anew from params.yaml ({error})") from error
    return cast(Graph, value) if isinstance(value, dict) else {}


def stage_entries(graph: Graph) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Entries by key of each stage that has keys."""
    return {
        "profile": graph.get("profiles", {}),
        "select": graph.get("selects", {}),
        "train": graph.get("trains", {}),
        "evaluate": graph.get("evaluates", {}),
    }


def check_served(config: Config) -> None:
    """Raise ConfigError where a stage would sample through servers (`kind: openai`) that serve another policy."""
    engine = config.engine
    if not isinstance(engine, OpenAIEngineConfig):
        return
    entries = stage_entries(derive_graph(config))
    for stage in engine.stages:
        policies = {str(entry["policy"]) for entry in entries[stage].values()}
        if others := sorted(policies - {Path(engine.serves).as_posix()}):
            raise ConfigError(
                f"engine.stages: the servers serve {engine.serves}, and '{stage}' samples from {', '.join(others)} "
                f"too; leave '{stage}' out, so that it samples in its own process, or take kind: vllm"
            )


def pool_of(graph: Graph, key: str) -> str:
    """Key of the pool that an arm and seed (`pivotrl-0`) train on; empty where they train on none."""
    train = graph.get("trains", {}).get(key)
    return train["pool"] if train else ""


def profile_of(graph: Graph, pool: str) -> str:
    """Key of the profile that a pool was selected from; empty where there is no such pool."""
    select = graph.get("selects", {}).get(pool)
    return select["profile"] if select else ""


def write_graph(config: Config, path: Path) -> bool:
    """Bring graph.yaml up to date. Returns whether it changed."""
    text = graph_text(config)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_text(path, text)
    return True
