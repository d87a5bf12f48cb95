"""Sets of labelled pairs are what they say: enough of them, varied, each once, with parts and ids by their content."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pivotrl_core.bench.pairs import Pair, Part, Rule, accepts, read_pairs, state_id
from pivotrl_core.verifiers.registry import GRADERS
from pivotrl_core.verifiers.rows import read_row
from tests.labelled.making.pair_rows import pair_id, part_of

SETS = Path(__file__).parents[1] / "labelled"
DOMAINS = [name for name in GRADERS if (SETS / name / "README.md").is_file()]
CHOICES = {
    "label": {"valid", "wrong"}, "origin": {"model", "trajectories", "rewritten"},
    "established": {"executed", "by_construction", "by_hand"}, "part": set(Part),
}  # fmt: skip
REQUIRED = {"pair", "kind", *CHOICES}
EACH_LABEL, STATES, KINDS, SAME_KIND, MOST_OF_ONE_KIND, MEGABYTES = 300, 60, 8, 3, 0.4, 3


@pytest.fixture(scope="module", params=DOMAINS)
def domain(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pairs(domain: str) -> list[Pair]:
    return read_pairs(SETS / domain)


def test_every_line_is_a_row_with_its_labels(domain: str, pairs: list[Pair]) -> None:
    for pair in pairs:
        assert pair.labels.keys() >= REQUIRED
        assert all(pair.labels[name] in choices for name, choices in CHOICES.items()), pair.labels
        read_row(pair.row, domain)


def test_ids_and_parts_are_of_the_content_and_no_pair_is_there_twice(pairs: list[Pair]) -> None:
    assert [pair.labels["pair"] for pair in pairs] == [pair_id(pair.row) for pair in pairs]
    assert [pair.labels["part"] for pair in pairs] == [part_of(pair.row) for pair in pairs]
    assert len({pair.labels["pair"] for pair in pairs}) == len(pairs)


def test_there_are_enough_of_each_label_and_about_a_third_is_kept(pairs: list[Pair]) -> None:
    labels = Counter(pair.labels["label"] for pair in pairs)
    assert min(labels["valid"], labels["wrong"]) >= EACH_LABEL, labels
    kept = sum(pair.labels["part"] == Part.KEPT for pair in pairs) / len(pairs)
    assert 0.2 < kept < 0.5


def test_states_and_kinds_are_spread(pairs: list[Pair]) -> None:
    """At most three pairs of a kind at a state and label; no kind makes up most of a label."""
    assert len({state_id(pair.row) for pair in pairs}) >= STATES
    at_one_state = Counter((state_id(pair.row), pair.labels["label"], pair.labels["kind"]) for pair in pairs)
    assert max(at_one_state.values()) <= SAME_KIND, at_one_state.most_common(3)
    for label in ("valid", "wrong"):
        kinds = Counter(pair.labels["kind"] for pair in pairs if pair.labels["label"] == label)
        assert len(kinds) >= KINDS
        assert kinds.most_common(1)[0][1] <= MOST_OF_ONE_KIND * kinds.total(), kinds.most_common(1)


def test_a_valid_alternative_is_not_the_expert_s_own_text(domain: str, pairs: list[Pair]) -> None:
    same = [pair.labels["pair"] for pair in pairs if accepts(pair, domain, Rule.EXACT, SETS / domain)]
    assert same == []


def test_a_set_is_small_enough_for_the_repository(domain: str) -> None:
    assert sum(path.stat().st_size for path in (SETS / domain).rglob("*")) <= MEGABYTES * 2**20
