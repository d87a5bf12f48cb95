"""Candidates: trajectories are read, checked, split, and taken apart into turns; what is dropped is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pivotrl_core.config.folders import CANDIDATES, PULLED
from pivotrl_core.engines.hub import TOKENIZER_FILES
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.candidates import CandidateDrop, CandidateTally, sift_candidates
from pivotrl_core.pivots.profile_record import write_candidates
from pivotrl_core.pivots.tables import write_table
from pivotrl_core.stages.context import StageContext, timed, write_report
from pivotrl_core.stages.models import check_lengths, check_template, configured_renderer, source_model
from pivotrl_core.stages.reading import check_pulled, iterate_pulled
from pivotrl_core.trajectories.drop_table import DROP_SCHEMA, row_drops
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.loading import trajectory_files
from pivotrl_core.types import Candidate


def run_candidates(context: StageContext) -> None:
    """Write data/candidates: candidates.parquet, drops.parquet, report.json."""
    data = context.config.data
    with timed(context, "candidates"):
        folder = context.path(f"{PULLED}/train")
        files = trajectory_files(folder)
        unread = sorted(set(folder.rglob("*.*")) - set(files)) if folder.is_dir() else []
        if unread:
            raise DataError(
                f"{unread[0].name}: no reader takes such a file; convert it to .jsonl, .ndjson, .json or .traj"
            )
        if not files:
            raise DataError(f"{PULLED}/train holds no trajectory file; check 'source' in params.yaml and pull again")
        out = context.path(CANDIDATES)
        # Files are read twice, so that too many drops stop before anything is counted in tokens, and none is held.
        read = check_pulled(context, folder, files, out / "drops.parquet")
        # Sources are written relative to the pulled folder, so that a worktree gives the same bytes.
        trajectories = (
            replace(one, metadata={**one.metadata, "file": _file_of(one.source, str(folder))}, source="")
            for one in iterate_pulled(context, files, DropReport())
        )
        tally = CandidateTally()
        candidates = sift_candidates(trajectories, data.validation_share, data.test_share, tally, _token_check(context))
        write_candidates(out / "candidates.parquet", candidates)
        rows = row_drops(read.drops, folder)
        write_table(out / "drops.parquet", "drops", DROP_SCHEMA, rows + [_turn(drop) for drop in tally.drops])
        report = tally.report()
        metrics = {
            "data/rows_read": read.read, "data/rows_kept": read.kept,
            "data/turns": report["turns"], "data/candidates": report["candidates"],
        }  # fmt: skip
        reading = {"read": read.read, "kept": read.kept, "by_reason": read.by_reason()}
        write_report(out / "report.json", "candidates", metrics, reading=reading, **report)


def _file_of(source: str, folder: str) -> str:
    path, _, line = source.rpartition(":")
    file = path if line.isdigit() and path else source
    return file.removeprefix(folder).lstrip("/")


def _turn(drop: CandidateDrop) -> dict[str, str]:
    place = f"{drop.trajectory_id}:{drop.turn_index}"
    return {"kind": "turn", "place": place, "field": "", "reason": drop.reason, "detail": drop.candidate_id}


def _token_check(context: StageContext) -> Callable[[Candidate], str]:
    from transformers import AutoTokenizer

    data = context.config.data
    folder = source_model(context, TOKENIZER_FILES)
    check_lengths(context, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    renderer = configured_renderer(tokenizer, data)
    check_template(context.config, renderer)

    def check(candidate: Candidate) -> str:
        if len(renderer.state_ids(candidate.state, candidate.tools)) > data.max_state_tokens:
            return "state_too_long"
        action_ids = renderer.action_ids(candidate.expert)
        if len(action_ids) > data.max_action_tokens:
            return "action_too_long"
        if not renderer.is_one_turn(action_ids):
            return "special_token_in_action"
        return "action_not_readable" if renderer.parse(action_ids, candidate.tools).error else ""

    return check
