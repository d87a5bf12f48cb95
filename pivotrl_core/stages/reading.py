"""How the stages `warmup` and `candidates` read pulled trajectories: drops that stop a stage are written down first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pivotrl_core.pivots.tables import write_table
from pivotrl_core.stages.context import StageContext
from pivotrl_core.trajectories.drop_table import DROP_SCHEMA, row_drops
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Trajectory


def check_pulled(context: StageContext, folder: Path, files: Sequence[Path], table: Path) -> DropReport:
    """Read trajectory files to their end, within the limits of `data`, keep none, and say what was dropped.

    Args:
        context: of the stage.
        folder: where `files` lie; places in the table are relative to it.
        files: in a fixed order.
        table: where the stage writes its drops.

    Raises:
        DataError: no row at all, or a broken file.
        TooManyDropsError: the share of drops is above data.max_drop_share; the table of them is written and named.
    """
    data, report = context.config.data, DropReport()
    for _ in iterate_pulled(context, files, report):
        pass
    # A private worktree is removed with its run; who reads the message finds the table in the stage's scratch folder.
    lasting = table if context.root == context.checkout else context.scratch / table.name
    if report.share > data.max_drop_share:
        write_table(lasting, "drops", DROP_SCHEMA, row_drops(report.drops, folder))
    report.check(data.max_drop_share, str(lasting))
    return report


def iterate_pulled(context: StageContext, files: Sequence[Path], report: DropReport) -> Iterator[Trajectory]:
    """The trajectories of pulled files one by one, within the limits of `data`; `report` is filled on the way."""
    return iterate_trajectories(files, report, Limits(max_argument_bytes=context.config.data.max_argument_bytes))
