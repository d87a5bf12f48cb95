"""`pivotrl inspect FILE`: what a trajectory file holds and what would be dropped, before anything runs.

What is dropped is so by the limits of params.yaml; lengths are in tokens of the configured model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivotrl_core.config.inputs import DataConfig
from pivotrl_core.config.loading import load_config
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.trajectories.inspection import QUANTILES, inspect_file
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Split, Trajectory
from tasks.settings import find_checkout, find_state


@dataclass(slots=True)
class CandidateLengths:
    """Tokens of the states and actions of trajectories, as the stages count them; equal candidates count each time."""

    renderer: ChatRenderer
    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)

    def __call__(self, trajectory: Trajectory) -> list[int]:
        """Lengths of a trajectory's candidates, state and action together."""
        found = [
            (
                len(self.renderer.state_ids(candidate.state, candidate.tools)),
                len(self.renderer.action_ids(candidate.expert)),
            )
            for candidate in iterate_candidates(trajectory, Split.TRAIN)
        ]
        self.states += [state for state, _ in found]
        self.actions += [action for _, action in found]
        return [state + action for state, action in found]

    def to_json(self, data: DataConfig) -> dict[str, Any]:
        """Quantiles, and how many candidates each limit drops: an action's counts where the state is short enough."""
        long = [state > data.max_state_tokens for state in self.states]
        long_actions = [
            action > data.max_action_tokens for action, dropped in zip(self.actions, long, strict=True) if not dropped
        ]
        return {
            "state_tokens_by_quantile": _quantiles(self.states),
            "action_tokens_by_quantile": _quantiles(self.actions),
            "candidates_dropped_by_limit": {
                "data.max_state_tokens": {"limit": data.max_state_tokens, "dropped": sum(long)},
                "data.max_action_tokens": {"limit": data.max_action_tokens, "dropped": sum(long_actions)},
            },
        }


def inspect_text(file: Path, as_json: bool, tokens: bool = True) -> str:
    """The inspection as text or JSON.

    Args:
        file: File or folder of trajectories.
        as_json: Print JSON.
        tokens: Also count the tokens of each candidate, with the tokenizer of the configured model.

    Raises:
        DataError: There is no such file.
    """
    if not file.exists():
        raise DataError(f"{file}: no such file or folder")
    root = find_checkout()
    config = load_config(root / "params.yaml")
    lengths = CandidateLengths(_renderer(root, config)) if tokens else None
    report = inspect_file(file, lengths, Limits(max_argument_bytes=config.data.max_argument_bytes))
    value = {**report.to_json(), **(lengths.to_json(config.data) if lengths else {})}
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) if as_json else "\n".join(_lines(value))


def _renderer(root: Path, config: Config) -> ChatRenderer:
    from transformers import AutoTokenizer

    from pivotrl_core.stages.context import StageContext
    from pivotrl_core.stages.models import source_model

    state = find_state(root)
    folder = source_model(StageContext(config, root, state.scratch, state.store, state.models, root))
    return ChatRenderer(AutoTokenizer.from_pretrained(folder, local_files_only=True), config.data.tool_format)


def _quantiles(lengths: Sequence[int]) -> dict[str, int]:
    import numpy as np

    return {f"{q:g}": int(np.quantile(lengths, q, method="higher")) for q in QUANTILES} if lengths else {}


def _lines(value: Mapping[str, Any], indent: str = "") -> list[str]:
    """Counts and names on a line each. Names of tools and reasons stay as they are written."""
    out = []
    for key, inner in value.items():
        name = key if indent else key.replace("_", " ")
        if isinstance(inner, Mapping):
            out += [f"{indent}{name}:", *_lines(inner, indent + "  ")]
        elif isinstance(inner, list):
            out += [f"{indent}{name}:", *(f"{indent}  {_entry(one)}" for one in inner)]
        else:
            out.append(f"{indent}{name}: {inner}")
    return out


def _entry(one: Any) -> str:
    return (
        ", ".join(f"{key} {value}" for key, value in one.items() if value != "")
        if isinstance(one, Mapping)
        else str(one)
    )
