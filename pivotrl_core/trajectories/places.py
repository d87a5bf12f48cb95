"""Where trajectories lie: a file, a folder, or a pattern with `*`, `?`, `[...]` and `**` for any depth of folders."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path


def pattern_base(place: Path) -> tuple[Path, str]:
    """A place as the folder or file that it names and a pattern below it; the pattern is empty where it names one.

    What exists is taken by its name, even where that looks like a pattern.
    """
    if place.exists():
        return place, ""
    parts = place.parts
    first = next((index for index, part in enumerate(parts) if has_magic(part)), None)
    if first is None:
        return place, ""
    return Path(*parts[:first]), "/".join(parts[first:])


def files_below(base: Path, pattern: str = "") -> list[Path]:
    """All files below a folder, in order: those that match the pattern, and those in folders that match it."""
    found = base.glob(pattern) if pattern else [base]
    files: set[Path] = set()
    for path in found:
        files.update([path] if path.is_file() else (inner for inner in path.rglob("*") if inner.is_file()))
    return sorted(files)
