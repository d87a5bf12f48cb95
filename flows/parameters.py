"""Keys of params.yaml that dvc.yaml names: the configuration has a default for most of them, DVC has none.

DVC says that a key is missing when a stage that depends on it starts, which may be the last one after hours. So a run
looks before anything runs: a private worktree's file gets the defaults, a checkout's is the user's and is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.request import values_text
from flows.sections import set_value
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_text
from tasks.graph import missing_parameters

PARAMETERS = "params.yaml"


def require_parameters(root: Path, config: Config) -> None:
    """Refuse a checkout whose params.yaml lacks a key that a stage depends on.

    Raises:
        ConfigError: One line for each key, with what to add.
    """
    lines = [
        f"{root / PARAMETERS}: '{key}' is missing, and DVC, which knows no defaults, needs it for {', '.join(stages)}; "
        f"add {_default_text(config, key)}"
        for key, stages in missing_parameters(root).items()
    ]
    if lines:
        raise ConfigError("\n".join(lines))


def complete_parameters(root: Path, values: Mapping[str, Any], config: Config) -> None:
    """Write the defaults of missing keys into the params.yaml of a private worktree.

    Only of those: to DVC, a section with all its defaults written out is another one than the checkout's, and results
    that the checkout has already would be computed again.

    Args:
        root: The worktree, with dvc.yaml and graph.yaml.
        values: What its params.yaml says.
        config: What the values mean.
    """
    missing = missing_parameters(root)
    complete = copy.deepcopy(dict(values))
    for key in missing:
        set_value(complete, key, _default(config, key))
    if missing:
        write_text(root / PARAMETERS, values_text(complete))


def _default(config: Config, key: str) -> Any:
    """The plain value of a dotted key. Raises ConfigError where the configuration has no such key."""
    value: Any = config.model_dump(mode="json")
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ConfigError(f"dvc.yaml: a stage depends on the parameter '{key}', which does not exist; correct it")
        value = value[part]
    return value


def _default_text(config: Config, key: str) -> str:
    """The line to add, and the section that it belongs to."""
    import yaml

    section, _, name = key.rpartition(".")
    text = yaml.safe_dump({name: _default(config, key)}, default_flow_style=True, sort_keys=False, width=10_000)
    return f"`{text.strip()[1:-1]}`" + (f" to the section {section}" if section else "")
