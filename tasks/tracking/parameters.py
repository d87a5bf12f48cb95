"""Parameters and tags in the one form that MLflow keeps: flat, canonical text, the same for the same configuration.

Params are immutable in MLflow, so a value's text must not depend on the process or the machine: no object reprs, no
absolute paths, one spelling for each number.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from pivotrl_core.types import Json, canonical_json

MAX_PARAM = 6000
MAX_NAME = 250
MAX_TAG = 5000
GIT_TAGS = {"commit": "mlflow.source.git.commit", "branch": "mlflow.source.git.branch"}
ARTIFACT_KEYS = frozenset({"diff"})
_NAME = re.compile(r"\w[\w\-. :/]*")  # what MLflow takes in a parameter's name; other keys are free text


def flatten(tree: Mapping[str, Json], prefix: str = "") -> dict[str, str]:
    """Dotted keys and canonical text values, sorted by key. A mapping with keys that are no names is one value.

    Raises:
        TypeError: a value is no plain JSON value; the key is named.
    """
    return dict(sorted(_leaves(tree, prefix)))


def _leaves(tree: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and all(_is_name(f"{name}.{one}") for one in value):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, _limited(value_text(value, name), MAX_PARAM)


def _is_name(name: str) -> bool:
    """Whether MLflow takes it for a parameter: plain characters, and a path that means itself."""
    return len(name) <= MAX_NAME and bool(_NAME.fullmatch(name)) and posixpath.normpath(name) == name


def value_text(value: Json, name: str) -> str:
    """One spelling a value: numbers by their shortest exact form, lists and empty mappings as canonical JSON."""
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, str):
        return _without_folders(value)
    if isinstance(value, (list, tuple)):
        value = [_without_folders(item) if isinstance(item, str) else item for item in value]
    try:
        return canonical_json(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"parameter {name}: {type(value).__name__} is no plain value ({error})") from error


def _without_folders(text: str) -> str:
    """An absolute path differs from machine to machine; its last part is what identifies it."""
    return f".../{PurePath(text).name}" if text.startswith("/") and "\n" not in text else text


def _limited(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: limit - 120]}... ({len(text)} characters, sha256 {digest})"


def child_parameters(config: Mapping[str, Json], arm: str, seed: int) -> dict[str, str]:
    """What sets a child apart (its arm's sub-tree without the arm's name) and what it shares with the others."""
    shared = {key: value for key, value in config.items() if key not in {"arms", "seeds"}}
    own = config.get("arms", {}).get(arm) or {}
    return {"arm": arm, "seed": str(seed)} | flatten(shared) | flatten(own)


def provenance_tags(provenance: Mapping[str, Json]) -> dict[str, str]:
    """Tags for commit, dirty flag, digests, seeds, engine and versions. `diff` is left out: it becomes an artifact."""
    plain = {key: value for key, value in provenance.items() if key not in GIT_TAGS and key not in ARTIFACT_KEYS}
    tags = {f"pivotrl.{key}": _limited(value, MAX_TAG) for key, value in flatten(plain).items()}
    for key, tag in GIT_TAGS.items():
        if provenance.get(key):
            tags[tag] = str(provenance[key])
    return tags


def split(values: Mapping[str, str], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    """The items in chunks of at most `size`, because MLflow limits a batch."""
    items = list(values.items())
    for start in range(0, len(items), size):
        yield items[start : start + size]
