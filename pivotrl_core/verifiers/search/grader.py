"""Functional verifier of browsing agents' turns: does this step look for, open or say what the expert's does?

Queries are the same by their words, from a threshold on, where neither has a word that the other's lacks and numbers,
operators and directions agree; or, where there is an index, by what they find. Pages are the same by URL, findings by
pattern and page, answers by their words and values. An answer in other words is refused here, with its similarity as
credit: that is a judge's matter, where there is one (`judged` says whether it was asked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Action, Candidate, Json, Role, ToolCall, content_id
from pivotrl_core.verifiers.decisions import ACCEPTED, ActionKind, expected_kind, kind_of, refused, refused_kind
from pivotrl_core.verifiers.derived_cache import DerivedCache
from pivotrl_core.verifiers.matching import complete_score, matching_steps
from pivotrl_core.verifiers.offers import offered_names, schema_of
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.row_fields import row_field
from pivotrl_core.verifiers.schema import Schema
from pivotrl_core.verifiers.search.answers import marked_answer, same_answer
from pivotrl_core.verifiers.search.index import DocumentIndex, RowIndexes, result_overlap
from pivotrl_core.verifiers.search.queries import Query, query_similarity, read_query
from pivotrl_core.verifiers.search.steps import Operation, Step, read_step
from pivotrl_core.verifiers.search.urls import same_page
from pivotrl_core.verifiers.settings import SearchSettings, VerdictReason
from pivotrl_core.verifiers.similarity import text_similarity
from pivotrl_core.verifiers.values import Comparison, equal_objects

MAX_CALLS = 16
"""More calls than this in one action are never compared one by one."""
MAX_ANSWERS, MAX_CHARACTERS = 8, 4_000
"""More answers of one call than this, or several that are longer together, are compared for equality only."""
_RULES = "4"


class SearchReason(StrEnum):
    """Reasons beyond those that all verifiers of actions share."""

    SAME_RESULTS = "same_results"
    TARGET_DIFFERS = "target_differs"
    ANSWER_DIFFERS = "answer_differs"


@dataclass(slots=True)
class _Expected:
    """A step of the expert's, with what comparisons derive from it, once each."""

    call: ToolCall
    step: Step
    schema: Schema
    offered: frozenset[str]
    queries: tuple[Query, ...] = ()
    results: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a comparison found. `score`: the similarity from which on the steps are the same; 0 where none is."""

    name: bool
    target: bool = False
    score: float = 0.0
    similarity: float = 0.0
    difference: str = ""


_SAME = _Compared(name=True, target=True, score=1.0, similarity=1.0)


class SearchGrader:
    """Grades turns of browsing agents.

    Components of one call: `name`, `target`, `similarity`, `difference`, and where an index was asked `executed` and
    `overlap`; of all calls `matching` (pairs of a score and how many calls are the expert's from there on). Of a
    message: `same_answer`, `similarity`.
    """

    name = "search"

    def __init__(self, settings: SearchSettings | None = None, folder: Path | None = None) -> None:
        """The index of the settings is built once, here; those that rows name lie below `folder`.

        Raises:
            DataError: it cannot be.
        """
        self.settings = settings or SearchSettings()
        self._indexes = RowIndexes(folder, Path(self.settings.index) if self.settings.index else None)
        asked = {**asdict(self.settings), "index": self._indexes.digest}
        self.version = f"{_RULES}-{content_id(asked)}"
        self._expected = DerivedCache(_read_expert)

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        expert = candidate.expert
        wanted = expected_kind(candidate)
        said = split_thinking(action.content)[1]
        decision = kind_of(action.tool_calls, said)
        components: dict[str, Json] = {
            "parsed": not action.error, "decision": decision, "expected": wanted, "executed": False, "judged": False,
        }  # fmt: skip
        if action.error:
            return {**components, "decision": ActionKind.NONE, "error": printable(action.error)}
        if decision == wanted == ActionKind.MESSAGE:
            return components | _compare_answers(_accepted_answers(candidate), said, question_of(candidate))
        if decision == wanted == ActionKind.CALL:
            count = {"calls": len(action.tool_calls), "calls_expected": len(expert.tool_calls)}
            one = count["calls"] == count["calls_expected"] == 1
            components |= {**count, **(self._grade_one if one else self._grade_several)(candidate, action)}
        return components

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        expected = components["expected"]
        if not components["parsed"]:
            return refused(VerdictReason.MALFORMED)
        if other := refused_kind(components["decision"], expected):
            return other
        if expected == ActionKind.MESSAGE:
            differs = refused(SearchReason.ANSWER_DIFFERS, components["similarity"])
            return ACCEPTED if components["same_answer"] else differs
        return self._decide_calls(components)

    def undecided(self, components: Mapping[str, Json]) -> bool:
        """Whether an answer, or a query of which no index told what it finds, is refused for its words alone."""
        if components["decision"] == components["expected"] == ActionKind.MESSAGE:
            return True
        worded = components.get("operation") in (Operation.ANSWER, Operation.SEARCH) and components["target"]
        return bool(worded) and "error" not in components and "overlap" not in components

    def _decide_calls(self, found: Mapping[str, Json]) -> GradingDecision:
        wanted, count = found["calls_expected"], found["calls"]
        threshold = self.settings.query_similarity
        matched = max((size for score, size in found["matching"] if score >= threshold), default=0)
        if matched == wanted == count:
            return ACCEPTED
        if found.get("overlap", 0.0) >= self.settings.result_overlap and found["target"]:
            return GradingDecision(True, SearchReason.SAME_RESULTS.value, 1.0)
        if wanted != count:
            return refused(VerdictReason.COUNT_DIFFERS, matched / max(wanted, count))
        if not found["name"]:
            return refused(VerdictReason.NAME_DIFFERS, matched / wanted)
        if wanted > 1:
            return refused(VerdictReason.ARGUMENTS_DIFFER, matched / wanted)
        if not found["target"]:
            return refused(SearchReason.TARGET_DIFFERS)
        differs = SearchReason.ANSWER_DIFFERS if found["operation"] == "answer" else VerdictReason.ARGUMENTS_DIFFER
        return refused(differs, found["similarity"])

    def _grade_one(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        expected, call = self._expected.of(candidate)[0], action.tool_calls[0]
        step = read_step(call, schema_of(call.name, candidate.tools))
        found = _compare_calls(expected, call, step, candidate)
        components: dict[str, Json] = {
            "operation": expected.step.operation.value, "name": found.name, "target": found.target,
            "similarity": found.similarity, "difference": printable(found.difference),
            "matching": [[found.score, 1]] if found.score else [],
        }  # fmt: skip
        if step.error:
            components |= {"parsed": found.score == 1.0, "error": printable(step.error)}
        is_search = step.operation is expected.step.operation is Operation.SEARCH
        asked = is_search and found.target and found.score < 1.0 and len(step.texts) == len(expected.step.texts)
        index = self._indexes.of(candidate) if asked else None
        if index is not None and _same_operators(expected.queries, step):
            components |= {"executed": True, "overlap": self._overlap(index, expected, step)}
        return components

    def _overlap(self, index: DocumentIndex, expected: _Expected, actual: Step) -> float:
        """How far two searches find the same pages first; of several queries, the pair that does so least."""
        if expected.results is None:
            expected.results = self._results(index, expected.step)
        sides = [
            list(zip(queries, results, strict=True))
            for queries, results in (
                (expected.queries, expected.results),
                (map(read_query, actual.texts), self._results(index, actual)),
            )
        ]
        return complete_score([[_found_alike(one, two) for two in sides[1]] for one in sides[0]])

    def _results(self, index: DocumentIndex, step: Step) -> tuple[tuple[str, ...], ...]:
        return tuple(index.search(text, self.settings.results) for text in step.texts)

    def _grade_several(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        expected, actual = self._expected.of(candidate), action.tool_calls[:MAX_CALLS]
        steps = [read_step(call, schema_of(call.name, candidate.tools)) for call in actual]
        pairs = list(zip(actual, steps, strict=True))
        scores = [[_compare_calls(one, call, step, candidate).score for call, step in pairs] for one in expected]
        matching = matching_steps(scores)
        operations = [sorted(step.operation for step in side) for side in ([one.step for one in expected], steps)]
        components: dict[str, Json] = {
            "name": operations[0] == operations[1],
            "target": False,
            "similarity": 0.0,
            "matching": [list(step) for step in matching],
        }
        if matching and matching[-1][1] == len(action.tool_calls) == len(candidate.expert.tool_calls):
            components |= {"target": True, "similarity": matching[-1][0]}
        broken = next((step.error for step in steps if step.error), "")
        return components | ({"parsed": components["target"], "error": printable(broken)} if broken else {})


def _read_expert(candidate: Candidate) -> tuple[_Expected, ...]:
    calls = candidate.expert.tool_calls[:MAX_CALLS]
    offered = offered_names(candidate)
    read: list[_Expected] = []
    for call in calls:
        schema = schema_of(call.name, candidate.tools)
        step = read_step(call, schema)
        queries = tuple(map(read_query, step.texts)) if step.operation is Operation.SEARCH else ()
        read.append(_Expected(call, step, schema, offered, queries))
    return tuple(read)


def _compare_calls(expected: _Expected, call: ToolCall, actual: Step, candidate: Candidate) -> _Compared:
    if expected.call.name == call.name and expected.call.arguments == call.arguments:
        return _SAME
    first = expected.step
    if first.error or actual.error:
        return _Compared(name=_same_name(expected, call.name, actual), difference="arguments: malformed")
    if not _same_name(expected, call.name, actual):
        return _Compared(name=False, difference="name")
    if expected.call.name == call.name and equal_objects(first.arguments, actual.arguments):
        return _SAME
    if first.operation is Operation.CALL:
        comparison = Comparison(expected.schema)
        score = comparison.score(first.arguments, actual.arguments, expected.schema)
        return _Compared(True, True, float(score == 1.0), score, comparison.difference)
    if first.missing or actual.missing:
        return _Compared(name=True, difference=f"missing: {first.missing or actual.missing}")
    if (first.rest or actual.rest) and Comparison({}).score(first.rest, actual.rest, {}) < 1.0:
        return _Compared(name=True, difference="options")
    return _compare_steps(expected, actual, candidate)


def _same_name(expected: _Expected, name: str, actual: Step) -> bool:
    """The same tool, or one that does what it does; where the row lists the expert's, one of its list."""
    if expected.call.name == name:
        return True
    same = expected.step.operation is actual.operation is not Operation.CALL
    return same and (not expected.offered or name in expected.offered)


def _compare_steps(expected: _Expected, actual: Step, candidate: Candidate) -> _Compared:
    first = expected.step
    if first.operation is Operation.SEARCH:
        return _compare_queries(expected.queries, tuple(map(read_query, actual.texts)))
    if first.operation is Operation.OPEN:
        same = _same_pages(first.texts, actual.texts)
        return _SAME if same else _Compared(name=True, difference="page")
    if first.operation is Operation.FIND:
        if not same_page(first.page, actual.page):
            return _Compared(name=True, difference="page")
        one, two = ([" ".join(text.casefold().split()) for text in step.texts] for step in (first, actual))
        alike = text_similarity(" ".join(one), " ".join(two))
        return _SAME if sorted(one) == sorted(two) else _Compared(True, True, 0.0, alike, "pattern")
    return _compare_answer_texts(first.texts, actual.texts, candidate)


def _compare_answer_texts(expected: Sequence[str], actual: Sequence[str], candidate: Candidate) -> _Compared:
    """Answers of as many parts, matched one to one in any order; the row's own answers count for a single one."""
    several, longest = len(expected) > 1, max(sum(map(len, side)) for side in (expected, actual))
    too_much = several and (longest > MAX_CHARACTERS or len(expected) > MAX_ANSWERS)
    if too_much or len(expected) != len(actual):
        return _SAME if sorted(expected) == sorted(actual) else _Compared(True, True, difference="answer")
    others = _row_answers(candidate) if len(expected) == 1 else []
    question = question_of(candidate)
    pairs = [[_compare_answers([one, *others], two, question) for two in actual] for one in expected]
    score = complete_score([[float(found["same_answer"]) for found in row] for row in pairs])
    similarity = complete_score([[found["similarity"] for found in row] for row in pairs])
    return _Compared(True, True, score, similarity, "" if score else "answer")


def _compare_queries(expected: Sequence[Query], actual: Sequence[Query]) -> _Compared:
    """Queries matched one to one in any order; the least alike pair of the best matching counts."""
    pairs = [[query_similarity(one, two) for two in actual] for one in expected]
    if len(expected) != len(actual):
        return _Compared(name=True, target=True, difference="queries")
    similarity = complete_score([[value for value, _ in row] for row in pairs])
    score = complete_score([[value if says else 0.0 for value, says in row] for row in pairs])
    return _Compared(True, True, score, similarity, "" if score == 1.0 else "query")


def _found_alike(expected: tuple[Query, tuple[str, ...]], actual: tuple[Query, tuple[str, ...]]) -> float:
    """How far two queries find the same; all the way where they are one query, though it finds nothing."""
    same = query_similarity(expected[0], actual[0]) == (1.0, True)
    return 1.0 if same else result_overlap(expected[1], actual[1])


def _same_operators(expected: Sequence[Query], actual: Step) -> bool:
    """Whether two searches have the same operators: the index here knows none, so only then do its results tell."""
    sides = (expected, map(read_query, actual.texts))
    first, second = (sorted(one for query in side for one in query.operators) for side in sides)
    return first == second


def _same_pages(expected: Sequence[str], actual: Sequence[str]) -> bool:
    if len(expected) != len(actual):
        return False
    pairs = [[float(same_page(one, two)) for two in actual] for one in expected]
    return complete_score(pairs) == 1.0


def _accepted_answers(candidate: Candidate) -> list[str]:
    return [candidate.expert.content, *_row_answers(candidate)]


def _row_answers(candidate: Candidate) -> list[str]:
    """Other spellings of the right answer that the row names (`answers`)."""
    named = row_field(candidate, "answers")
    return [one for one in named[:64] if isinstance(one, str)] if isinstance(named, list) else []


def question_of(candidate: Candidate) -> str:
    """What the user said last."""
    return next((one.content for one in reversed(candidate.state) if one.role is Role.USER), "")


def _compare_answers(expected: Sequence[str], actual: str, question: str) -> dict[str, Json]:
    """Whether an answer to a question is one of the right ones, and how like the most similar of them it is."""
    given = marked_answer(actual)
    right = [marked_answer(one) for one in expected]
    if actual in expected or any(same_answer(one, given, question) for one in right):
        return {"same_answer": True, "similarity": 1.0}
    return {"same_answer": False, "similarity": max((text_similarity(one, given) for one in right), default=0.0)}
