"""How the stages `warmup` and `candidates` read pulled trajectories: drops that stop a stage are written down first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import has_magic
from itertools import takewhile
from pathlib import Path, PurePosixPath

from pivotrl_core.config.folders import PULLED
from pivotrl_core.files import read_json
from pivotrl_core.pivots.tables import write_table
from pivotrl_core.stages.context import StageContext
from pivotrl_core.trajectories.drop_table import DROP_SCHEMA, row_drops
from pivotrl_core.trajectories.drops import DropReport
from pivotrl_core.trajectories.formatting import ToolFormat
from pivotrl_core.trajectories.loading import iterate_trajectories
from pivotrl_core.trajectories.validation import Limits
from pivotrl_core.types import Trajectory

MANIFEST = "manifest.json"
WARMUP = "warmup/"
"""What keys of the warm-up's files begin with in a manifest."""


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
    names = [*map(source_names(context), files)]
    few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    report.check(data.max_drop_share, str(lasting), few)
    return report


def iterate_pulled(context: StageContext, files: Sequence[Path], report: DropReport) -> Iterator[Trajectory]:
    """The trajectories of pulled files one by one, within the limits of `data`; `report` is filled on the way."""
    data = context.config.data
    limits = Limits(max_argument_bytes=data.max_argument_bytes, tool_format=ToolFormat(data.tool_format))
    return iterate_trajectories(files, report, limits, source_names(context))


def source_names(context: StageContext) -> Callable[[Path], str]:
    """Names of pulled files at their source: where a user mends them. A private worktree is gone by then."""
    path = context.path(f"{PULLED}/{MANIFEST}")
    manifest = read_json(path) if path.is_file() else {"source": {}, "files": []}
    names = {
        context.path(f"{PULLED}/{file['path']}"): _at_source(manifest["source"], file["origin_key"])
        for file in manifest["files"]
    }
    return lambda path: names.get(path, path.as_posix())


def _at_source(source: Mapping[str, str], key: str) -> str:
    """The name of an object from the manifest's source and its key there."""
    if key.startswith(WARMUP) and "warmup_kind" in source:
        apart = {name.removeprefix("warmup_"): value for name, value in source.items() if name.startswith("warmup_")}
        return _at_source(apart, key.removeprefix(WARMUP))
    if source.get("kind") == "s3":
        return "/".join(part for part in (f"s3://{source['bucket']}", source["prefix"].strip("/"), key) if part)
    if source.get("kind") != "folder":
        return key
    place = PurePosixPath(source["path"])
    if place.name == key:  # a single file
        return place.as_posix()
    whole = takewhile(lambda part: not has_magic(part), place.parts)
    return PurePosixPath(*whole, key).as_posix()
