"""A turn of a browsing agent as a step: search, open, find or answer, whatever its tools are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.types import Json, ToolCall
from pivotrl_core.verifiers.naming import plain_name
from pivotrl_core.verifiers.schema import Schema, absent_names, with_defaults
from pivotrl_core.verifiers.signs import nfkc


class Operation(StrEnum):
    """What a turn does. The comment names what identifies it."""

    SEARCH = "search"  # queries
    OPEN = "open"  # pages
    FIND = "find"  # text, and the page it is looked for on
    ANSWER = "answer"  # text
    CALL = "call"  # any other tool: all of its arguments


_NAMES: Mapping[Operation, str] = {
    Operation.SEARCH: "search web_search google_search google bing_search brave_search duckduckgo_search "
    "browser_search internet_search tavily_search serper_search wiki_search wikipedia_search local_search "
    "search_web search_query search_documents retrieve retrieval search_engine search_wikipedia",
    Operation.OPEN: "open open_url open_page open_result visit visit_page visit_webpage visit_url browse browse_page "
    "fetch fetch_url web_fetch navigate goto goto_url read_page read_url get_page get_page_content get_document scrape "
    "crawl browser_open browser_navigate click link_click url_fetch",
    Operation.FIND: "find find_in_page find_on_page find_text search_in_page page_find browser_find ctrl_f",
    Operation.ANSWER: "answer final_answer submit_answer give_answer finish submit respond",
}
_OPERATIONS = {plain_name(name): operation for operation, names in _NAMES.items() for name in names.split()}
_QUERY = ("query", "queries", "q", "search_query", "search_queries", "keywords", "search_term", "question", "input",
          "text")  # fmt: skip
_PAGE = ("url", "urls", "link", "href", "uri", "id", "ref_id", "doc_id", "docid", "document_id", "page_id",
         "result_id", "page", "index", "title", "cursor")  # fmt: skip
_PATTERN = ("pattern", "text", "query", "find", "search", "keyword", "term", "string")
_ANSWER = ("answer", "final_answer", "exact_answer", "text", "content", "message", "result", "response")
_UNCOUNTED = frozenset({
    "goal", "reason", "reasoning", "thought", "explanation", "confidence", "citations", "sources", "description",
    "top_k", "topk", "topn", "k", "n", "num", "num_results", "max_results", "count", "limit", "timeout",
    "response_length", "viewsource",
})  # fmt: skip
"""Arguments that say why, or how much of it is shown."""
_NOTHING: tuple[Json, ...] = (None, "", [], {})
MAX_TEXTS = 32


@dataclass(frozen=True, slots=True)
class Step:
    """What a turn does.

    Attributes:
        operation: what is done.
        arguments: of the call, defaults of its schema filled in.
        error: why the arguments could not be read; empty where they could.
        texts: queries, pages, the pattern, or the answer.
        page: where a pattern is looked for.
        rest: all other arguments that count.
        missing: what identifies such a step and is not there.
    """

    operation: Operation
    arguments: Mapping[str, Json] = field(default_factory=dict)
    error: str = ""
    texts: tuple[str, ...] = ()
    page: str = ""
    rest: Mapping[str, Json] = field(default_factory=dict)
    missing: str = ""


def operation_of(name: str) -> Operation:
    """What a tool of this name does."""
    return _OPERATIONS.get(plain_name(name), Operation.CALL)


def read_step(call: ToolCall, schema: Schema) -> Step:
    """The step that a call is. Never raises."""
    operation = operation_of(call.name)
    decoded = decode_arguments(call.arguments)
    if decoded.error:
        return Step(operation, error=decoded.error)
    arguments = with_defaults(decoded.value, schema, schema) if schema else decoded.value
    if operation is Operation.CALL:
        return Step(operation, arguments)
    names = {Operation.SEARCH: _QUERY, Operation.OPEN: _PAGE, Operation.FIND: _PATTERN, Operation.ANSWER: _ANSWER}
    used, texts = _texts(arguments, names[operation])
    taken = {used}
    page = ""
    if operation is Operation.FIND:
        place, pages = _texts({name: value for name, value in arguments.items() if name != used}, _PAGE)
        page = pages[0] if pages else ""
        taken.add(place)
    rest = _counted({name: value for name, value in arguments.items() if name not in taken})
    options = _options(arguments.get(used))
    if options:  # the same for all queries: as if they were said once, beside them
        alike = all(one == options[0] for one in options) and rest.keys().isdisjoint(options[0])
        rest |= options[0] if alike else {used: options}
    if operation is Operation.ANSWER:
        rest = {}
    missing = names[operation][0] if not texts else next(iter(absent_names(schema, arguments)), "")
    return Step(operation, arguments=arguments, error="", texts=texts, page=page, rest=rest, missing=missing)


def _texts(arguments: Mapping[str, Json], names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The name of the first argument that says something, and what: a text, a number, a list of them."""
    for name in names:
        value = arguments.get(name)
        listed = value if isinstance(value, list) else [value]
        found = tuple(text for text in map(_text, listed[:MAX_TEXTS]) if text)
        if found and len(found) == len(listed):
            return name, found
    return "", ()


def _options(value: Json) -> list[dict[str, Json]]:
    """What each query says beside its text, in the order of the texts; nothing where none does."""
    listed = [one if isinstance(one, Mapping) else {} for one in (value if isinstance(value, list) else [value])]
    told = [_counted({name: one[name] for name in one if name != _text_key(one)}) for one in listed]
    order = sorted(range(len(told)), key=lambda place: _text(listed[place]).casefold())
    return [told[place] for place in order] if any(told) else []


def _text_key(value: Mapping[str, Json]) -> str:
    return "q" if value.get("q") else "query"


def _counted(arguments: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in arguments.items() if name not in _UNCOUNTED and value not in _NOTHING}


def _text(value: Json) -> str:
    if isinstance(value, Mapping):  # {"q": "...", "recency": 3}
        value = value.get(_text_key(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return nfkc(value).strip() if isinstance(value, str) else ""
