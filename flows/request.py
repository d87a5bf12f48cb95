"""What a command asks for beyond params.yaml: overrides, a choice of arms, one's own trajectories and model, QUICK.

A request is plain values, so that it travels as the parameter of a Prefect flow. One that overrides nothing is plain
and works in the checkout itself; every other one works in a private worktree.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from flows import quick
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Request:
    """Overrides by dotted key, the arms to keep (all where empty), and whether sizes shrink to a walk-through."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    quick: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether params.yaml is taken as it stands."""
        return not (self.settings or self.arms or self.quick)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "arms": list(self.arms)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`; missing parts are defaults. Raises ConfigError for an unknown part."""
        unknown = set(value) - {one.name for one in fields(cls)}
        if unknown:
            raise ConfigError(f"request: unknown part {sorted(unknown)[0]!r}; known: settings, arms, quick")
        return cls(dict(value.get("settings", {})), tuple(value.get("arms", ())), bool(value.get("quick", False)))

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameter values with everything in this request put in. `values` stays as it is."""
        out = copy.deepcopy(dict(values))
        if self.arms:
            out["arms"] = _keep_arms(out.get("arms", {}), self.arms)
        if self.quick:
            _shrink(out)
        for key, value in self.settings.items():
            set_value(out, key, value)
        return out


def set_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, making sections on the way."""
    *sections, last = key.split(".")
    for section in sections:
        inner = values.get(section)
        values[section] = inner if isinstance(inner, dict) else {}
        values = values[section]
    values[last] = value


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
    """Overrides for `--trajectories`: one's own file or folder."""
    if not path.exists():
        raise ConfigError(f"--trajectories {path}: no such file or folder")
    return {"source": {"kind": "folder", "path": str(path.expanduser().resolve())}}


def _keep_arms(arms: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The named arms, with base and with those that they start from, in the order of the file."""
    wanted = {"base", *names}
    for name in names:
        if name not in arms:
            raise ConfigError(f"--arms {name}: params.yaml has no such arm; it has: {', '.join(arms)}")
        wanted.add(str(((arms[name] or {}).get("train") or {}).get("start", "base")))
    return {name: arm for name, arm in arms.items() if name in wanted}


def _shrink(values: dict[str, Any]) -> None:
    embedded = (values.get("source") or {}).get("kind", "embedded") == "embedded"
    for key, value in quick.SETTINGS.items():
        if embedded or key not in quick.EMBEDDED_ONLY:
            set_value(values, key, value)
    for arm in values.get("arms", {}).values():
        train = (arm or {}).get("train")
        if train:
            train.update({key: quick.TRAIN[key] for key in quick.METHOD_KEYS.get(train.get("method"), ())})


def read_values(path: Path) -> dict[str, Any]:
    """Plain values of a parameter file. Raises ConfigError where it is not a mapping."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, YAMLError, UnicodeDecodeError) as error:
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


def check_graph(root: Path, config: Config) -> bool:
    """Bring graph.yaml up to date with the parameters. Returns whether it changed."""
    from pivotrl_core.config.graph import write_graph

    return write_graph(config, root / "graph.yaml")
