"""What a command asks for beyond params.yaml: overrides, a choice of arms, one's own trajectories and model, QUICK.

A request is plain values, so that it travels as the parameter of a Prefect flow. One that overrides nothing is plain
and works in the checkout itself; every other one works in a private worktree.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from flows import quick
from flows.ablation import Sweep, sweep_arms
from flows.sections import checked_list, checked_parts, section, set_value
from pivotrl_core.config.stages import WarmupConfig
from pivotrl_core.errors import ConfigError
from pivotrl_core.trajectories.loading import trajectory_files
from pivotrl_core.trajectories.places import files_below, pattern_base

NO_WARMUP = "warmup.epochs"


_PARTS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "settings": (Mapping, "values by dotted key"),
    "arms": ((list, tuple), "a list of names"),
    "quick": (bool, "true or false"),
    "params": (str, "the path of a parameter file"),
    "curtail": (bool, "true or false"),
    "sweep": ((Mapping, type(None)), "lambdas and controls"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """Overrides by dotted key, the arms to keep (all where empty), whether sizes shrink to a walk-through.

    `params` names a parameter file to use instead of params.yaml, relative to the checkout; `sweep` says which arms of
    a sweep come to those of the parameters; `curtail` lets a profile stop where the arms' rules are decided, where the
    parameters do not say for themselves.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    quick: bool = False
    params: str = ""
    sweep: Sweep | None = None
    curtail: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether params.yaml is taken as it stands."""
        return self == Request()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "arms": list(self.arms)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`; missing parts are defaults. Raises ConfigError for a part that is unknown or wrong."""
        parts = checked_parts(value, "request", _PARTS)
        if "arms" in parts:
            parts["arms"] = checked_list(parts["arms"], "request: arms", str, _PARTS["arms"][1])
        if parts.get("sweep") is not None:
            parts["sweep"] = Sweep.from_json(parts["sweep"])
        return cls(**parts)

    def file(self, checkout: Path) -> Path:
        """The parameter file that the request is put into."""
        return checkout / (Path(self.params).expanduser() if self.params else "params.yaml")

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameter values with everything in this request put in. `values` stays as it is."""
        return self.fit(values)[0]

    def fit(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """`apply`, with a line for each thing that the trajectories cannot have."""
        out = copy.deepcopy(dict(values))
        # What arms are made from, and what decides whether sizes of the embedded domain can shrink, comes first.
        for key in ("source", "arms"):
            if key in self.settings:
                out[key] = copy.deepcopy(self.settings[key])
        if self.quick:
            _shrink(out)
        self._put_in(out)
        lines = _drop_episode_arms(out)
        if self.curtail:
            _curtail(out)
        if self.settings.get(NO_WARMUP) == 0 and _warmup_epochs(values) > 0:
            lines.append(
                f"{NO_WARMUP}: 0, so the base policy is the model as it is; profile and training start from it"
            )
        return out, lines

    def _put_in(self, out: dict[str, Any]) -> None:
        """Put settings and a sweep's arms into `out`, and leave out the arms that are not asked for."""
        known = section(out, "arms")
        late = [key for key in self.settings if _arm_of(key) not in (None, *known)]  # in an arm that a sweep may make
        for key, value in self.settings.items():
            if key not in ("source", "arms", *late):
                set_value(out, key, value)
        if self.sweep is not None:  # from arms with everything put in: all are compared at the same settings
            out["arms"] = sweep_arms(section(out, "arms"), self.sweep.lambdas, self.sweep.controls)
        for key in late:
            set_value(out, key, self.settings[key])
        if self.arms:
            out["arms"] = _keep_arms(section(out, "arms"), self.arms)
            for key in late:
                if _arm_of(key) not in out["arms"]:
                    raise ConfigError(f"{key}: --arms leaves this arm out; name it there too, or leave this away")


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` of the command line, the value read as YAML. Raises ConfigError where there is no `=`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r}: expected key=value, for example --set profile.samples=16")
    try:
        return key.strip(), YAML(typ="safe").load(value)
    except YAMLError as error:
        raise ConfigError(f"--set {text!r}: the value is not readable as YAML: {error}") from error


def model_settings(name: str) -> dict[str, Any]:
    """Overrides for `--model`: `bundled`, a folder, or a hub id with `@revision`."""
    if name == "bundled":
        return {"model": {"kind": "bundled"}}
    if Path(name).expanduser().is_dir():
        return {"model": {"kind": "folder", "path": str(Path(name).expanduser().resolve())}}
    repo, at, revision = name.partition("@")
    if not at or not revision:
        raise ConfigError(f"--model {name!r}: no such folder; for the hub give owner/name@revision, or say 'bundled'")
    return {"model": {"kind": "hub", "repo": repo, "revision": revision}}


def trajectory_settings(path: Path) -> dict[str, Any]:
    """Overrides for `--trajectories`: one's own file, folder or pattern. Without a folder warmup/ no warm-up."""
    place = path.expanduser().absolute()
    base, pattern = pattern_base(place)
    if not base.exists() or (pattern and not files_below(base, pattern)):
        raise ConfigError(f"--trajectories {path}: no such file or folder, and no file that matches it")
    own = {"source": {"kind": "folder", "path": str(place if pattern else place.resolve())}}
    return own if not pattern and trajectory_files(place / "warmup") else {**own, NO_WARMUP: 0}


def _drop_episode_arms(values: dict[str, Any]) -> list[str]:
    """Leave out arms that play episodes, and those that start from them, where the trajectories have no environment."""
    source = section(values, "source")
    if source.get("kind", "embedded") == "embedded" or source.get("environment"):
        return []
    arms = section(values, "arms")
    trains = {name: section(section(arms, name), "train") for name in arms}
    played = {name for name, train in trains.items() if train.get("method") == "e2e"}
    dropped = [name for name, train in trains.items() if name in played or train.get("start") in played]
    for name in dropped:
        del arms[name]
    what = ", ".join(dropped)
    return [f"arms left out, because source.environment names none to play in: {what}"] if dropped else []


def _curtail(values: dict[str, Any]) -> None:
    """Let the profile draw what the arms' rules need, unless the parameters say how, or an arm needs all of it.

    An adaptive rule looks at all samples. What is not drawn cannot be replayed: an arm that replays gets all samples of
    what its rule keeps, and of everything where the rule keeps turns for other reasons than their samples.
    """
    profile = section(values, "profile")
    if any(key in profile for key in ("curtail", "staged", "decides_for", "complete_for")):
        return
    arms = [section(section(values, "arms"), name) for name in section(values, "arms")]
    rules = [(dict(section(arm, "select")), bool(section(arm, "train").get("replay"))) for arm in arms]
    rules = [(rule, replays) for rule, replays in rules if rule]
    names = {str(rule.get("rule")) for rule, _ in rules}
    replayed = [rule for rule, replays in rules if replays]
    if not rules or "adaptive-eta" in names or any(rule.get("rule") in ("all", "random") for rule in replayed):
        return
    set_value(values, "profile.curtail", True)
    set_value(values, "profile.decides_for", _distinct(rule for rule, replays in rules if not replays))
    if replayed:
        set_value(values, "profile.complete_for", _distinct(replayed))


def _distinct(rules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, in their order."""
    listed = list(rules)
    return [rule for at, rule in enumerate(listed) if rule not in listed[:at]]


def _arm_of(key: str) -> str | None:
    """The arm that a dotted key lies in, if it lies in one."""
    parts = key.split(".")
    return parts[1] if parts[0] == "arms" and len(parts) > 2 else None


def _warmup_epochs(values: Mapping[str, Any]) -> int:
    epochs = section(values, "warmup").get("epochs", WarmupConfig().epochs)
    return epochs if isinstance(epochs, int) else 0


def _keep_arms(arms: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The named arms, with base and with those that they start from, in the order of the file."""
    wanted = {"base", *names}
    for name in names:
        if name not in arms:
            raise ConfigError(f"--arms {name}: no such arm; there are: {', '.join(map(str, arms))}")
        wanted.add(str(section(section(arms, name), "train").get("start", "base")))
    return {name: arm for name, arm in arms.items() if name in wanted}


def _shrink(values: dict[str, Any]) -> None:
    embedded = section(values, "source").get("kind", "embedded") == "embedded"
    if embedded:
        set_value(values, "source.kind", "embedded")  # a section that is made here says what it is
    for key, value in quick.SETTINGS.items():
        if embedded or key not in quick.EMBEDDED_ONLY:
            set_value(values, key, value)
    arms = section(values, "arms")
    for name in arms:
        train = section(section(arms, name), "train")
        if train:
            train.update({key: quick.TRAIN[key] for key in quick.METHOD_KEYS.get(str(train.get("method")), ())})


def read_values(path: Path) -> dict[str, Any]:
    """Plain values of a parameter file. Raises ConfigError where it is not a mapping."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a parameter file") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of sections at the top")
    return values


def values_text(values: Mapping[str, Any]) -> str:
    """A parameter file for a worktree."""
    from ruamel.yaml import YAML

    out = io.StringIO()
    writer: Any = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False
    writer.dump(dict(values), out)
    return out.getvalue()
