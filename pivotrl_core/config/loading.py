"""Loading params.yaml: errors name the key, what is wrong with it, and the nearest known key."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.types import canonical_json

TAGS = ("kind", "method", "rule")
"""Keys whose value says which member of a union a section is."""
MAY_HOLD_SECRETS = frozenset({"endpoints", "key_variable"})  # where somebody puts a key in the wrong place


def load_config(path: Path) -> Config:
    """Read and validate a parameter file. Raises ConfigError naming file, key and remedy."""
    # Not PyYAML: it takes '1e-5' for text. YAML 1.2 (ruamel) reads it as the number that DVC's own dumper means by it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: not found; run from the project's root, or name another file with `pivotrl run --params`"
        ) from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of sections at the top, found {type(values).__name__}")
    return parse_config(values, str(path))


def parse_config(values: Mapping[str, Any], origin: str = "parameters") -> Config:
    """Validate plain values. Raises ConfigError with one line for each fault."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = [f"{origin}: {_describe(fault, values)}" for fault in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


def config_digest(config: Config) -> str:
    """SHA-256 of the whole tree, defaults included: 1e-5, 1.0e-5 and 0.00001 are one number and one digest."""
    return hashlib.sha256(canonical_json(config.model_dump(mode="json")).encode()).hexdigest()


def _describe(fault: Any, values: Mapping[str, Any]) -> str:
    path = [str(part) for part in fault["loc"]]
    key = ".".join(_as_written(path, values))
    if fault["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(path[-1], sorted(_known_keys(Config, path[:-1])), n=1, cutoff=0.5)
        hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
        return f"unknown key '{key}'{hint}"
    if fault["type"] == "union_tag_not_found":
        return f"'{key}': {fault['ctx']['discriminator']} is missing, which says what the other keys mean"
    message = str(fault["msg"]).removeprefix("Value error, ")
    where = f"'{key}': " if key else ""
    shown = key and MAY_HOLD_SECRETS.isdisjoint(path)
    return f"{where}{message} (found {fault['input']!r})" if shown else f"{where}{message}"


def _as_written(path: list[str], values: Any) -> list[str]:
    """A path without the tags of unions, which are steps of pydantic's alone."""
    written = []
    for index, step in enumerate(path):
        is_last = index == len(path) - 1
        if isinstance(values, Mapping) and not is_last and step in [values.get(name) for name in TAGS]:
            continue
        written.append(step)
        if isinstance(values, Mapping):
            values = values.get(step)
        elif isinstance(values, list | tuple) and step.isdecimal():
            values = values[int(step)]
    return written


def _known_keys(model: type[BaseModel], path: list[str]) -> set[str]:
    """Names of the fields under `path`; a union's tag is a step to one of its members, an arm's name is none."""
    models = [model]
    for step in path:
        children = [m for parent in models if step in parent.model_fields for m in _models_in(parent, step)]
        tagged = [m for m in models if any(step in get_args(part.annotation) for part in m.model_fields.values())]
        models = children or tagged or models
    return {name for m in models for name in m.model_fields}


def _models_in(model: type[BaseModel], name: str) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    queue: list[Any] = [model.model_fields[name].annotation]
    while queue:
        annotation = queue.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
        queue.extend(get_args(annotation))
    return found
