"""Maximum bipartite matching: which calls (or list items) answer which, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence


def maximum_matching(compatible_EA: Sequence[Sequence[bool]]) -> int:
    """Size of the largest set of pairs (expected, actual) in which nothing is used twice.

    Args:
        compatible_EA: whether expected item e is answered by actual item a.
    """
    partner_of_actual: dict[int, int] = {}
    return sum(_augment(expected, compatible_EA, partner_of_actual) for expected in range(len(compatible_EA)))


def _augment(start: int, compatible_EA: Sequence[Sequence[bool]], partner_of_actual: dict[int, int]) -> bool:
    """Search an augmenting path from `start` breadth first (Kuhn's algorithm without recursion), and flip it."""
    came_from: dict[int, int] = {}
    queue = [start]
    for expected in queue:
        for actual, compatible in enumerate(compatible_EA[expected]):
            if not compatible or actual in came_from:
                continue
            came_from[actual] = expected
            if actual not in partner_of_actual:
                _flip(actual, start, came_from, partner_of_actual)
                return True
            queue.append(partner_of_actual[actual])
    return False


def _flip(actual: int, start: int, came_from: dict[int, int], partner_of_actual: dict[int, int]) -> None:
    while True:
        expected = came_from[actual]
        previous = next((a for a, e in partner_of_actual.items() if e == expected), None)
        partner_of_actual[actual] = expected
        if expected == start or previous is None:
            return
        actual = previous
