"""`pivotrl inspect FILE...`: what trajectory files hold and what would be dropped, before anything runs.

What is dropped is so by the limits of params.yaml; lengths are in tokens of the configured model. Of a folder or a
pattern, those files count that a run would train on; what lies under `warmup/` stands apart. Where the checkout holds
pools, each shows how many candidates of each kind of decision it kept: there pivots concentrate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.request import Request
from flows.session import load_request
from pivotrl_core.config.inputs import DataConfig
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import read_json
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.stages.models import configured_renderer, source_model
from pivotrl_core.trajectories.formatting import ToolFormat
from pivotrl_core.trajectories.inspection import QUANTILES, inspect_files
from pivotrl_core.trajectories.places import files_below, pattern_base
from pivotrl_core.trajectories.rows import is_trajectory_name
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Split, Trajectory
from tasks.pull.manifest import PullSplit
from tasks.pull.origin import is_data_key, split_of
from tasks.settings import find_checkout, find_state

PLAIN = Request()
_ENDINGS = "names of trajectory files end in .jsonl, .ndjson, .json or .traj (also .gz, .zst)"


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


def inspect_text(places: Sequence[Path], as_json: bool, tokens: bool = True, request: Request = PLAIN) -> str:
    """The inspection as text or JSON.

    Args:
        places: Files, folders and patterns.
        as_json: Print JSON.
        tokens: Also count the tokens of each candidate, with the tokenizer of the configured model.
        request: What differs from params.yaml: the model, the parameter file.

    Raises:
        ConfigError: The model has no folder or no tokenizer.
        DataError: There is no such file, or none to train on.
    """
    train, warmup = _files(places)
    root = find_checkout()
    config = load_request(root, request)[1]
    limits = Limits(max_argument_bytes=config.data.max_argument_bytes, tool_format=ToolFormat(config.data.tool_format))
    lengths = CandidateLengths(_renderer(root, config)) if tokens else None
    value = {**inspect_files(train, lengths, limits).to_json(), **(lengths.to_json(config.data) if lengths else {})}
    if pools := _pools(root):
        value["pools_of_this_checkout_by_decision"] = pools
    if warmup:
        value["warmup"] = inspect_files(warmup, None, limits).to_json()
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) if as_json else "\n".join(_lines(value))


def _files(places: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files that a run would train on, and those for the warm-up; a single file may be hidden."""
    by_split: dict[PullSplit, list[Path]] = {split: [] for split in PullSplit}
    for place in places:
        base, pattern = pattern_base(place)
        if not base.exists():
            raise DataError(f"{place}: no such file or folder")
        if base.is_file():
            if not is_trajectory_name(base.name):
                raise DataError(f"{place}: {_ENDINGS}; give the file such a name")
            by_split[PullSplit.TRAIN].append(base)
            continue
        keys = (path.relative_to(base).as_posix() for path in files_below(base, pattern))
        for key in filter(is_data_key, keys):
            by_split[split_of(key)].append(base / key)
    if not by_split[PullSplit.TRAIN]:
        raise DataError(
            f"{', '.join(map(str, places))}: nothing to train on; {_ENDINGS}, and warmup/ is for the warm-up alone"
        )
    train, warmup = (list(dict.fromkeys(by_split[split])) for split in (PullSplit.TRAIN, PullSplit.WARMUP))
    return train, warmup


def _pools(root: Path) -> dict[str, Any]:
    """What each pool of the checkout kept of each kind of decision; pools of older versions do not say."""
    reports = {path.parent.name: read_json(path) for path in sorted((root / "data" / "pools").glob("*/report.json"))}
    return {name: report["by_decision"] for name, report in reports.items() if "by_decision" in report}


def _renderer(root: Path, config: Config) -> ChatRenderer:
    from transformers import AutoTokenizer

    from pivotrl_core.engines.hub import TOKENIZER_FILES
    from pivotrl_core.stages.context import StageContext

    state = find_state(root)
    context = StageContext(config, root, scratch=state.scratch, store=state.store, models=state.models, checkout=root)
    folder = source_model(context, TOKENIZER_FILES)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder}: no tokenizer that transformers can read; name a model folder that has one"
        ) from error
    return configured_renderer(tokenizer, config.data)


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
