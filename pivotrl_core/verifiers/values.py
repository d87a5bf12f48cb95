"""Two JSON values compared by what they mean to a tool, under the tool's schema.

Numbers by value (1 equals 1.0, true is no number), strings as `similarity.py` says, objects by key with schema defaults
filled in, lists in order unless the schema says `uniqueItems`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pivotrl_core.types import Json
from pivotrl_core.verifiers.matching import maximum_matching
from pivotrl_core.verifiers.schema import Schema, resolve, with_defaults
from pivotrl_core.verifiers.similarity import string_similarity

MAX_UNORDERED_ITEMS = 200
"""Longer lists are compared in order even where order does not matter: matching takes time of the square."""
MAX_COMPARED = 1_000_000
"""Values compared in all, seconds of work: lists inside of lists that are all without order multiply their squares."""


@dataclass(slots=True)
class Comparison:
    """One comparison under way: the lowest similarity of a free text, and the first difference (path and kind).

    `compared` counts values, also those that matchings try; beyond `MAX_COMPARED` nothing is equal.
    """

    root: Schema
    text_threshold: float
    similarity: float = 1.0
    difference: str = ""
    compared: list[int] = field(default_factory=lambda: [0])

    def equal(self, expected: Json, actual: Json, schema: Json, path: str = "") -> bool:
        """Whether `actual` means the same as `expected`."""
        self.compared[0] += 1
        if self.compared[0] > MAX_COMPARED:
            return self._note(False, path, "more to compare than is reasonable")
        part = resolve(schema, self.root, expected)
        if isinstance(expected, Mapping) and isinstance(actual, Mapping):
            return self._equal_objects(expected, actual, part, path)
        if isinstance(expected, list) and isinstance(actual, list):
            return self._equal_lists(expected, actual, part, path)
        if isinstance(expected, str) and isinstance(actual, str):
            similarity = string_similarity(expected, actual, part)
            self.similarity = min(self.similarity, similarity)
            return self._note(similarity > 0.0 and similarity >= self.text_threshold, path, "value")
        if _kind(expected) != _kind(actual):
            return self._note(False, path, "type")
        return self._note(_equal_scalars(expected, actual), path, "value")

    def _note(self, equal: bool, path: str, kind: str) -> bool:
        if not equal and not self.difference:
            self.difference = f"{path or '.'}: {kind}"
        return equal

    def _equal_objects(
        self, expected: Mapping[str, Json], actual: Mapping[str, Json], schema: Schema, path: str
    ) -> bool:
        first, second = with_defaults(expected, schema, self.root), with_defaults(actual, schema, self.root)
        if first.keys() != second.keys():
            return self._note(False, path, "keys")
        properties = schema.get("properties")
        parts = properties if isinstance(properties, Mapping) else {}
        extra = schema.get("additionalProperties")
        # What both have from the same default is not looked into: a default may itself have defaults, without end.
        return all(
            value is second[key] or self.equal(value, second[key], parts.get(key, extra), f"{path}.{key}")
            for key, value in first.items()
        )

    def _equal_lists(self, expected: list[Json], actual: list[Json], schema: Schema, path: str) -> bool:
        if len(expected) != len(actual):
            return self._note(False, path, "length")
        items = schema.get("items")
        if schema.get("uniqueItems") is True and len(expected) <= MAX_UNORDERED_ITEMS:
            return self._note(self._equal_in_any_order(expected, actual, items), path, "value")
        pairs = zip(expected, actual, strict=True)
        return all(self.equal(first, second, items, f"{path}[{i}]") for i, (first, second) in enumerate(pairs))

    def _equal_in_any_order(self, expected: list[Json], actual: list[Json], items: Json) -> bool:
        if all(self._equal_apart(*pair, items) for pair in zip(expected, actual, strict=True)):
            return True
        matrix: list[list[bool]] = []
        for first in expected:
            matrix.append([self._equal_apart(first, second, items) for second in actual])
            if not any(matrix[-1]):
                return False
        return maximum_matching(matrix) == len(expected)

    def _equal_apart(self, expected: Json, actual: Json, schema: Json) -> bool:
        """Compare without a trace in this comparison: most pairs of a matching are meant to differ."""
        return Comparison(self.root, self.text_threshold, compared=self.compared).equal(expected, actual, schema)


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _equal_scalars(expected: Json, actual: Json) -> bool:
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(expected, actual, rel_tol=1e-9)
    return bool(expected == actual)
