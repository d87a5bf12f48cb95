"""Lines of labelled pairs: a pivot row with its answer, and what is known about the pair."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pivotrl_core.bench.pairs import Part, state_id
from pivotrl_core.types import Json, content_id

MOST_OF_A_KIND = 3
"""Pairs of one kind at one state and of one label."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two actions at a state, what they are to each other, and how that is known.

    `params` is the state as `responses_create_params` has it; `extra` are further fields of the row.
    """

    params: Mapping[str, Json]
    expert: Mapping[str, Json]
    other: Mapping[str, Json]
    label: str
    origin: str
    kind: str
    established: str
    extra: Mapping[str, Json]


def pair_id(row: Mapping[str, Json]) -> str:
    """Identifies a pair: its state and both actions."""
    return content_id([state_id(row), row.get("expected_action") or row.get("expected_answer"), row["response"]])


def part_of(row: Mapping[str, Json]) -> Part:
    """Where a row belongs: all pairs of a state together, about a third of the states kept aside."""
    digits = sha256(("pairs" + state_id(row)).encode()).hexdigest()[:8]
    return Part.KEPT if int(digits, 16) % 3 == 0 else Part.OPEN


def line_of(pair: Pair) -> dict[str, Json]:
    """The pair as a row that `pivotrl verify` reads."""
    row: dict[str, Json] = {
        "responses_create_params": pair.params,
        "expected_action": pair.expert,
        "response": {"output": [dict(pair.other)]},
        **pair.extra,
    }
    known = {"label": pair.label, "origin": pair.origin, "kind": pair.kind, "established": pair.established}
    return {"pair": pair_id(row), **known, "part": part_of(row), **row}


def write_pairs(path: Path, pairs: Iterable[Pair]) -> Counter[tuple[str, str]]:
    """Write pairs to a packed file, each once, and few of a kind at a state; returns counts by label and origin."""
    seen: set[str] = set()
    kinds: Counter[tuple[str, str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    lines: list[str] = []
    for pair in pairs:
        line = line_of(pair)
        place = (state_id(line), pair.label, pair.kind)
        if line["pair"] in seen or kinds[place] >= MOST_OF_A_KIND:
            continue
        seen.add(line["pair"])
        kinds[place] += 1
        counts[pair.label, pair.origin] += 1
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    return counts


def call(name: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """A call as rows write it."""
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}


def message(text: str) -> dict[str, Json]:
    """A message as rows expect it."""
    return {"type": "message", "content": text}


def said(text: str) -> dict[str, Json]:
    """A message as a response has it."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
