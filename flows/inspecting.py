"""`pivotrl inspect FILE`: what a trajectory file holds and what would be dropped, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pivotrl_core.errors import DataError
from pivotrl_core.types import Trajectory
from tasks.settings import find_checkout, find_state

TokenCounter = Callable[[Trajectory], list[int]]


def inspect_text(file: Path, as_json: bool, tokens: bool = True) -> str:
    """The inspection as text or JSON.

    Args:
        file: File or folder of trajectories.
        as_json: Print JSON.
        tokens: Also count the tokens of each candidate, with the tokenizer of the configured model.

    Raises:
        DataError: There is no such file.
    """
    from pivotrl_core.trajectories.inspection import inspect_file

    if not file.exists():
        raise DataError(f"{file}: no such file or folder")
    value: Mapping[str, Any] = inspect_file(file, _token_counter() if tokens else None).to_json()
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) if as_json else "\n".join(_lines(value))


def _token_counter() -> TokenCounter:
    """Lengths of a trajectory's candidates, state and action together, as the stages count them."""
    from transformers import AutoTokenizer

    from pivotrl_core.config.loading import load_config
    from pivotrl_core.engines.chat import ChatRenderer
    from pivotrl_core.stages.context import StageContext
    from pivotrl_core.stages.models import source_model
    from pivotrl_core.trajectories.turns import candidate_positions

    root = find_checkout()
    config, state = load_config(root / "params.yaml"), find_state(root)
    folder = source_model(StageContext(config, root, state.scratch, state.store, state.models, root))
    renderer = ChatRenderer(AutoTokenizer.from_pretrained(folder, local_files_only=True), config.data.tool_format)

    def count(trajectory: Trajectory) -> list[int]:
        messages = trajectory.messages
        return [
            len(renderer.state_ids(messages[:position], trajectory.tools))
            + len(renderer.action_ids(messages[position]))
            for position in candidate_positions(trajectory)
        ]

    return count


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
