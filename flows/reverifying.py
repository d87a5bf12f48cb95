"""`pivotrl reverify RUN`: new rewards for the stored rollouts of a run, under another rule, without a new sample."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flows.request import Request, parse_setting, read_values
from pivotrl_core.config.folders import BASE_POLICY, PROFILES, PULLED
from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import read_json, write_json
from pivotrl_core.pivots.profile_record import ProfileRow, candidate_from_columns, read_profile, write_profile
from pivotrl_core.pivots.profiling import (
    Rollout,
    by_candidate,
    distinct_successes,
    read_rollouts,
    write_rollouts,
)
from pivotrl_core.pivots.rescoring import Parse, rescore
from pivotrl_core.pivots.tables import records
from pivotrl_core.stages.context import Places, pulled_workspaces
from pivotrl_core.stages.verification import grading_id, verifier_here
from pivotrl_core.types import Action, Candidate, Tool
from tasks.settings import find_state, main_checkout


@dataclass(frozen=True, slots=True)
class Reverified:
    """What became of one profile. `pivots`: candidates with a success and a failure."""

    profile: str
    rollouts: int
    graded_again: int
    rewards_changed: int
    mean_reward_before: float
    mean_reward_after: float
    pivots_before: int
    pivots_after: int
    folder: str

    def text(self) -> str:
        """As lines for a person."""
        return (
            f"{self.profile}: {self.rollouts} rollouts, {self.graded_again} graded again, "
            f"{self.rewards_changed} rewards changed\n"
            f"  mean reward {self.mean_reward_before:.4f} -> {self.mean_reward_after:.4f}; candidates with a success "
            f"and a failure {self.pivots_before} -> {self.pivots_after}\n  written to {self.folder}"
        )


def reverify_text(checkout: Path, run: str, rule: str, settings: Sequence[str], out: Path, as_json: bool) -> str:
    """Score the rollouts of each profile of a run again, write new profiles, and say what changed.

    Args:
        checkout: Where runs are recorded.
        run: Run id, commit or MLflow run id; or a folder that has `data/profiles` (a checkout).
        rule: A kind of verifier; empty: the run's own.
        settings: `verifier.KEY=VALUE`, over the run's own.
        out: Receives a folder for each profile.
        as_json: Say it as JSON.

    Raises:
        ConfigError: No such run, or no such setting.
        DataError: The run has no profiles, or its data is not here.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = _place(checkout, run, Path(scratch))
        before, after = _configurations(root, rule, settings)
        folders = sorted(path.parent for path in (root / PROFILES).glob("*/rollouts.parquet"))
        if not folders:
            raise DataError(f"{run}: no profile under {PROFILES}; let its profile stage run first")
        parse = _parser(root, checkout, after)
        places = Places(main_checkout(checkout), find_state(checkout).store, pulled_workspaces(root))
        found = [_reverify(folder, (before, after), places, parse, out / folder.name) for folder in folders]
    if as_json:
        return json.dumps([asdict(one) for one in found], indent=2, sort_keys=True)
    return "\n".join(one.text() for one in found)


def _place(checkout: Path, run: str, scratch: Path) -> Path:
    """A folder with the run's params.yaml, profiles, base policy, and the workspaces that its rows name."""
    if (Path(run) / PROFILES).is_dir():
        return Path(run).resolve()
    if Path(run).is_dir():
        raise DataError(
            f"{run}: this folder has no {PROFILES}; a run with its own trajectories, model or settings leaves none in "
            "the checkout: name it by its id, as `pivotrl run` printed it"
        )
    from tasks.records import find_record
    from tasks.settings import dvc_cache
    from tasks.stored import copy_output, link_output

    record = find_record(checkout, run)
    outs = {path: md5 for stage in record.lock().values() for path, md5 in stage.outs.items()}
    (scratch / "params.yaml").write_text(record.text("params.yaml") or "", encoding="utf-8")
    for path, md5 in outs.items():
        if path.startswith(f"{PROFILES}/") or path == BASE_POLICY:
            link_output(dvc_cache(checkout), md5, scratch / path)
        elif path == PULLED:
            copy_output(dvc_cache(checkout), md5, scratch / path, "workspaces")
    return scratch


def _configurations(root: Path, rule: str, settings: Sequence[str]) -> tuple[Config, Config]:
    """The run's configuration, and the one that is asked for."""
    path = root / "params.yaml"
    values = read_values(path)
    asked = dict(map(parse_setting, settings))
    for key in asked:
        if not key.startswith("verifier."):
            raise ConfigError(f"--set {key}: only settings of the verifier change what stored rollouts earn")
    if rule:
        asked["verifier.kind"] = rule
    return parse_config(values, str(path)), parse_config(Request(asked).apply(values), str(path))


def _parser(root: Path, checkout: Path, config: Config) -> Parse:
    """Reads sampled ids with the tokenizer of the base policy, which is loaded when the first are to be read."""

    @cache
    def renderer() -> Any:
        from pivotrl_core.engines.model import follow_path, load_tokenizer
        from pivotrl_core.stages.models import configured_renderer

        base = follow_path(root / BASE_POLICY, checkout)
        return configured_renderer(load_tokenizer(base, base), config.data)

    def parse(ids: Sequence[int], tools: Sequence[Tool]) -> Action:
        action: Action = renderer().parse(ids, tools)
        return action

    return parse


def _reverify(
    folder: Path, configurations: tuple[Config, Config], places: Places, parse: Parse, out: Path
) -> Reverified:
    before, after = configurations
    frame = read_profile(folder / "profile.parquet")
    rows = records(frame)
    candidates = {str(row["candidate_id"]): candidate_from_columns(row) for row in rows}
    rollouts = read_rollouts(folder / "rollouts.parquet")
    report = folder / "report.json"
    graded_by = read_json(report).get("grading") if report.is_file() else None
    reuse = graded_by == grading_id(before, places) == grading_id(after, places)
    rescored = rescore(candidates, rollouts, verifier_here(after, places), reuse, parse)
    threshold = after.profile.success_threshold
    planned = {str(row["candidate_id"]): int(row["planned"]) for row in rows}
    write_rollouts(out / "rollouts.parquet", rescored.rollouts)
    write_profile(out / "profile.parquet", _profile_rows(candidates, planned, rescored.rollouts, threshold))
    result = Reverified(
        folder.name,
        rollouts=len(rollouts),
        graded_again=rescored.graded,
        rewards_changed=rescored.changed,
        mean_reward_before=_mean(rollouts),
        mean_reward_after=_mean(rescored.rollouts),
        pivots_before=_mixed(candidates, rollouts, threshold),
        pivots_after=_mixed(candidates, rescored.rollouts, threshold),
        folder=str(out),
    )
    write_json(out / "report.json", {**asdict(result), "grading": grading_id(after, places)})
    return result


def _profile_rows(
    candidates: Mapping[str, Candidate], planned: Mapping[str, int], rollouts: Sequence[Rollout], threshold: float
) -> list[ProfileRow]:
    return [
        ProfileRow(
            candidates[identity], tuple(rollout.verdict for rollout in group), threshold,
            distinct_successes(group, threshold), planned[identity],
        )
        for identity, group in zip(candidates, by_candidate(rollouts, list(candidates)), strict=True)
    ]  # fmt: skip


def _mean(rollouts: Sequence[Rollout]) -> float:
    return sum(rollout.verdict.reward for rollout in rollouts) / len(rollouts)


def _mixed(candidates: Mapping[str, Candidate], rollouts: Sequence[Rollout], threshold: float) -> int:
    drawn = Counter(rollout.candidate_id for rollout in rollouts)
    won = Counter(rollout.candidate_id for rollout in rollouts if rollout.verdict.reward >= threshold)
    return sum(0 < won[identity] < drawn[identity] for identity in candidates)
