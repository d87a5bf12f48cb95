"""Two JSON values compared by what they mean to a tool, under the tool's schema and the comparators that are set.

Numbers by value (1 equals 1.0, true is no number), strings as `similarity.py` says, objects by key with schema defaults
filled in, lists in order unless the schema says `uniqueItems` or `x-unordered`. The outcome is a score in [0, 1]: 1
means the same, 0 differs, and between them lies the lowest similarity of a free text where all else is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pivotrl_core.types import Json, canonical_json
from pivotrl_core.verifiers.comparators import NO_MARK, Comparator, Mark
from pivotrl_core.verifiers.matching import complete_score
from pivotrl_core.verifiers.schema import UNORDERED, Schema, resolve, with_defaults
from pivotrl_core.verifiers.similarity import STRING_COMPARATORS, string_similarity

MAX_UNORDERED_ITEMS = 200
"""Longer lists are compared in order even where order does not matter: matching takes time of the square."""
MAX_COMPARED = 1_000_000
"""Values compared in all, seconds of work: lists inside of lists that are all without order multiply their squares."""


@dataclass(slots=True)
class Comparison:
    """One comparison under way, and where its score was lost: path and kind of the lowest score so far.

    `compared` counts values, also those that matchings try; beyond `MAX_COMPARED` nothing is equal.
    """

    root: Schema
    lowest: float = 1.0
    difference: str = ""
    compared: list[int] = field(default_factory=lambda: [0])

    def score(self, expected: Json, actual: Json, schema: Json, mark: Mark = NO_MARK, path: str = "") -> float:
        """How far `actual` means the same as `expected`."""
        self.compared[0] += 1
        if self.compared[0] > MAX_COMPARED:
            return self._note(0.0, path, "more to compare than is reasonable")
        if mark.comparator is Comparator.IGNORED:
            return 1.0
        part = resolve(schema, self.root, expected)
        if isinstance(expected, str) and isinstance(actual, str):
            compare = STRING_COMPARATORS.get(mark.comparator) if mark.comparator else None
            found = compare(expected, actual) if compare else string_similarity(expected, actual, part)
            return self._note(found, path, "value")
        if isinstance(expected, Mapping) and isinstance(actual, Mapping):
            return self._score_objects(expected, actual, part, mark, path)
        if isinstance(expected, list) and isinstance(actual, list):
            return self._score_lists(expected, actual, part, mark, path)
        if _kind(expected) != _kind(actual):
            return self._note(0.0, path, "type")
        return self._note(float(_equal_scalars(expected, actual)), path, "value")

    def _note(self, score: float, path: str, kind: str) -> float:
        if score < self.lowest:
            self.lowest = score
            self.difference = f"{path or '.'}: {kind}"
        return score

    def _score_objects(
        self, expected: Mapping[str, Json], actual: Mapping[str, Json], schema: Schema, mark: Mark, path: str
    ) -> float:
        first, second = with_defaults(expected, schema, self.root), with_defaults(actual, schema, self.root)
        for name in mark.ignored:
            first.pop(name, None)
            second.pop(name, None)
        if first.keys() != second.keys():
            return self._note(0.0, path, "keys")
        properties = schema.get("properties")
        parts = properties if isinstance(properties, Mapping) else {}
        extra = schema.get("additionalProperties")
        # What both have from the same default is not looked into: a default may itself have defaults, without end.
        return _lowest(
            self.score(value, second[key], parts.get(key, extra), mark.below(key), f"{path}.{key}")
            for key, value in first.items()
            if value is not second[key]
        )

    def _score_lists(self, expected: list[Json], actual: list[Json], schema: Schema, mark: Mark, path: str) -> float:
        if len(expected) != len(actual):
            return self._note(0.0, path, "length")
        items, each = schema.get("items"), mark.below("[]")
        if _is_unordered(schema, mark) and len(expected) <= MAX_UNORDERED_ITEMS:
            return self._note(self._score_in_any_order(expected, actual, items, each), path, "value")
        pairs = zip(expected, actual, strict=True)
        return _lowest(self.score(one, two, items, each, f"{path}[{i}]") for i, (one, two) in enumerate(pairs))

    def _score_in_any_order(self, expected: list[Json], actual: list[Json], items: Json, each: Mark) -> float:
        if all(self._score_apart(*pair, items, each) == 1.0 for pair in zip(expected, actual, strict=True)):
            return 1.0
        scores: list[list[float]] = []
        for first in expected:
            scores.append([self._score_apart(first, second, items, each) for second in actual])
            if not any(scores[-1]):
                return 0.0
        return complete_score(scores)

    def _score_apart(self, expected: Json, actual: Json, schema: Json, mark: Mark) -> float:
        """Compare without a trace in this comparison: most pairs of a matching are meant to differ."""
        return Comparison(self.root, compared=self.compared).score(expected, actual, schema, mark)


def equal_objects(first: Mapping[str, Json], second: Mapping[str, Json]) -> bool:
    """Whether two objects that say something are one, in any order of keys; false does not mean that they differ."""
    # To Python true is 1; to JSON it is not.
    return bool(first) and first == second and canonical_json(first) == canonical_json(second)


def _lowest(scores: Iterable[float]) -> float:
    """The lowest score; the rest is not looked at once it is 0."""
    lowest = 1.0
    for score in scores:
        if score < lowest:
            lowest = score
            if not score:
                break
    return lowest


def _is_unordered(schema: Schema, mark: Mark) -> bool:
    said = schema.get("uniqueItems") is True or schema.get(UNORDERED) is True
    return said if mark.comparator is None else mark.comparator is Comparator.UNORDERED


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _equal_scalars(expected: Json, actual: Json) -> bool:
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(expected, actual, rel_tol=1e-9)
    return bool(expected == actual)
