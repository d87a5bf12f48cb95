"""Maximum bipartite matching: which calls (or list items) answer which, whatever their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache


def maximum_matching(compatible_EA: Sequence[Sequence[bool]]) -> int:
    """Size of the largest set of pairs (expected, actual) in which nothing is used twice.

    Args:
        compatible_EA: whether expected item e is answered by actual item a.
    """
    return len(matched_rows(compatible_EA, range(len(compatible_EA))))


def matched_rows(compatible_EA: Sequence[Sequence[bool]], order: Sequence[int]) -> set[int]:
    """Which expected items a largest matching has that takes them in this order (Kuhn's algorithm, no recursion).

    A row that is matched stays so: of those that cannot all be matched, the later ones in the order are left over.
    """
    answers_E = [sum(1 << a for a, compatible in enumerate(row) if compatible) for row in compatible_EA]
    partner_of_actual: dict[int, int] = {}
    actual_of: dict[int, int] = {}
    for expected in order:
        _augment(expected, answers_E, partner_of_actual, actual_of)
    return set(actual_of)


def matching_steps(scores_EA: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    """How the largest matching grows while the score that its pairs must reach falls: (score, size) at each growth.

    Args:
        scores_EA: in [0, 1]; a pair of score 0 is never matched.
    """
    scores, size = _by_score(scores_EA)
    steps: list[tuple[float, int]] = []
    largest = size(len(scores) - 1) if scores else 0
    at = matched = 0
    while matched < largest:
        at = bisect_right(range(len(scores)), matched, lo=at, key=size)
        matched = size(at)
        steps.append((scores[at], matched))
    return steps


def complete_score(scores_EE: Sequence[Sequence[float]]) -> float:
    """The lowest score of the complete matching whose lowest score is highest; 0 where none is complete."""
    scores, size = _by_score(scores_EE)
    at = bisect_right(range(len(scores)), len(scores_EE) - 1, key=size)
    return scores[at] if at < len(scores) else 0.0


def _by_score(scores_EA: Sequence[Sequence[float]]) -> tuple[list[float], Callable[[int], int]]:
    """The scores that there are, falling, and the size of the largest matching of pairs that reach the i-th."""
    scores = sorted({score for row in scores_EA for score in row if score > 0.0}, reverse=True)

    @cache
    def size(index: int) -> int:
        return maximum_matching([[score >= scores[index] for score in row] for row in scores_EA])

    return scores, size


def _augment(
    start: int, answers_E: Sequence[int], partner_of_actual: dict[int, int], actual_of: dict[int, int]
) -> None:
    """Search an augmenting path from `start` breadth first, and flip it. Bit a of answers_E[e]: a answers e."""
    came_from: dict[int, int] = {}
    seen = 0
    queue = [start]
    for expected in queue:
        fresh = answers_E[expected] & ~seen
        seen |= fresh
        while fresh:
            actual = (fresh & -fresh).bit_length() - 1
            fresh &= fresh - 1
            came_from[actual] = expected
            if actual not in partner_of_actual:
                _flip(actual, start, came_from, partner_of_actual, actual_of)
                return
            queue.append(partner_of_actual[actual])


def _flip(
    actual: int, start: int, came_from: dict[int, int], partner_of_actual: dict[int, int], actual_of: dict[int, int]
) -> None:
    while True:
        expected = came_from[actual]
        previous = actual_of.get(expected)
        partner_of_actual[actual] = expected
        actual_of[expected] = actual
        if expected == start or previous is None:
            return
        actual = previous
