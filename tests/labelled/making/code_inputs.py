"""Inputs that programs are tried on for labels: hundreds of each problem, within what its statement allows."""

from __future__ import annotations

import random
from collections.abc import Callable

from pivotrl_core.types import Json
from tests.labelled.making.code_problems import Problem

COUNT = 240
_LETTERS = "abcdez"
_WORDS = ["a", "bb", "Cat", "dog", "level", "Otto", "xyz", "apple", "Apple", "noon", "I", "wolf", "Zoo"]


def generated(problem: Problem) -> list[list[Json]]:
    """The row's own test inputs, then random ones, `COUNT` in all. Later ones are larger."""
    draw = random.Random(f"inputs {problem.name}")
    found = [list(one) for one in problem.tests]
    while len(found) < COUNT:
        size = 1 + 11 * len(found) // COUNT
        if problem.inputs == ("same_length",):
            length = draw.randint(0, size)
            found.append([[draw.randint(-5, 5) for _ in range(length)] for _ in range(2)])
        elif problem.inputs == ("ana", "ana"):
            first = "".join(draw.choice("abc") for _ in range(draw.randint(0, size)))
            second = (
                "".join(draw.sample(first, len(first))) if draw.random() < 0.5 else f"{first[1:]}{draw.choice('ab')}"
            )
            found.append([first, second])
        else:
            found.append([_value(kind, draw, size) for kind in problem.inputs])
    return found


def _value(kind: str, draw: random.Random, size: int) -> Json:
    if kind.startswith("int:"):
        _, low, high = kind.split(":")
        return draw.randint(int(low), int(high))
    return _KINDS[kind](draw, size)


def _ints(draw: random.Random, size: int, least: int = 0) -> list[int]:
    width = draw.choice([2, 5, 9])
    return [
        draw.randint(-width if draw.random() < 0.7 else 0, width) for _ in range(draw.randint(least, max(least, size)))
    ]


def _text(draw: random.Random, size: int, least: int = 0) -> str:
    words = [draw.choice(_WORDS) for _ in range(draw.randint(least, max(least, size // 2)))]
    gap = draw.choice([" ", "  ", ", "])
    return gap.join(words) + draw.choice(["", "", "!", " "])


def _runs(draw: random.Random, size: int) -> str:
    return "".join(draw.choice(_LETTERS[:3]) * draw.choice([1, 1, 2, 3]) for _ in range(draw.randint(0, size // 2 + 1)))


def _palindrome(draw: random.Random, size: int) -> str:
    half = "".join(draw.choice("abA") for _ in range(draw.randint(0, size // 2)))
    middle = draw.choice(["", "a", "b"])
    return half + middle + (half[::-1] if draw.random() < 0.6 else half)


def _nested(draw: random.Random, size: int, level: int = 0) -> list[Json]:
    return [
        _nested(draw, size, level + 1) if level < 3 and draw.random() < 0.3 else draw.randint(-4, 9)
        for _ in range(draw.randint(0, 1 + size // 3))
    ]


def _distinct(draw: random.Random, size: int) -> list[int]:
    found = _ints(draw, size, 2)
    return found if len(set(found)) > 1 else [*found, max(found) + 1]


def _table(draw: random.Random, size: int, least: int = 0) -> dict[str, int]:
    return {draw.choice("abcdefgh"): draw.randint(-2, 5) for _ in range(draw.randint(least, max(least, size // 2)))}


def _sorted_or_not(draw: random.Random, size: int) -> list[int]:
    found = _ints(draw, size)
    return sorted(found) if draw.random() < 0.6 else found


def _matrix(draw: random.Random, size: int) -> list[list[int]]:
    width = draw.randint(1, 1 + size // 3)
    return [[draw.randint(0, 9) for _ in range(width)] for _ in range(draw.randint(1, 1 + size // 3))]


def _words(draw: random.Random, size: int, least: int = 0) -> list[str]:
    some = draw.sample(["", "a", "b", "bb", "cat", "dog", "A", "apple"], 4)
    return [draw.choice(some) for _ in range(draw.randint(least, max(least, size)))]


def _prefixes(draw: random.Random, size: int) -> list[str]:
    stem = "".join(draw.choice("ab") for _ in range(draw.randint(0, 4)))
    return [
        stem + "".join(draw.choice("ab") for _ in range(draw.randint(0, 3))) for _ in range(draw.randint(0, size // 2))
    ]


_KINDS: dict[str, Callable[[random.Random, int], Json]] = {
    "ints": _ints,
    "ints1": lambda draw, size: _ints(draw, size, 1),
    "ints2d": _distinct,
    "ints_s": _sorted_or_not,
    "sorted": lambda draw, size: sorted(_ints(draw, size)),
    "sorted_u": lambda draw, size: sorted({draw.randint(-3, 21) for _ in range(draw.randint(0, size))}),
    "few": lambda draw, size: draw.sample(range(-1, 9), draw.randint(0, min(size, 5))),
    "lists": lambda draw, size: [_ints(draw, 3) for _ in range(draw.randint(0, 1 + size // 3))],
    "matrix": _matrix,
    "nested": _nested,
    "text": _text,
    "text1": lambda draw, size: _text(draw, size, 1),
    "lowertext": lambda draw, size: " ".join(
        draw.choice(["ab", "x", "cold", "sea"]) for _ in range(draw.randint(0, size // 2))
    ),
    "pal": _palindrome,
    "runs": _runs,
    "letter": lambda draw, size: draw.choice("abloAz"),
    "ending": lambda draw, size: "".join(draw.choice("abc") for _ in range(draw.randint(0, 2))),
    "brackets": lambda draw, size: "".join(draw.choice("(()x)") for _ in range(draw.randint(0, size))),
    "words": _words,
    "words1": lambda draw, size: _words(draw, size, 1),
    "prefixes": _prefixes,
    "pairs_text": lambda draw, size: ";".join(
        f"{draw.choice('abk')}={draw.randint(-9, 20)}" for _ in range(draw.randint(0, size // 3))
    ),
    "table": _table,
    "table1": lambda draw, size: _table(draw, size, 1),
    "table_t": lambda draw, size: {key: f"{key}{draw.choice('xy')}" for key in _table(draw, size)},
}
