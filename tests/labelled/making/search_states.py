"""States of browsing agents at which pairs are made: three families of tools, the question, what was seen."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from pivotrl_core.types import Json
from tests.labelled.making.pair_rows import call
from tests.labelled.making.search_facts import Fact, Page

INDEX = "pages"
"""The folder of documents beside the pairs."""
_TEXT: Mapping[str, Json] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Tools:
    """What an agent's tools are called. `listed`: queries come as a list; `answer` empty: answers are messages."""

    search: str
    query: str
    open: str
    url: str
    find: str
    pattern: str
    answer: str
    listed: bool = False
    options: tuple[str, ...] = ()

    def schemas(self) -> list[dict[str, Json]]:
        """The tools as rows list them."""
        queries: Json = {"type": "array", "items": _TEXT} if self.listed else _TEXT
        extra: dict[str, Json] = {"num_results": {"type": "integer"}, "language": _TEXT} if self.options else {}
        goal: dict[str, Json] = {"goal": _TEXT} if self.options else {}
        tools = [
            _tool(self.search, {self.query: queries, **extra}, self.query),
            _tool(self.open, {self.url: _TEXT, **goal}, self.url),
            _tool(self.find, {self.pattern: _TEXT, "url": _TEXT}, self.pattern, "url"),
        ]
        return [*tools, _tool(self.answer, {"answer": _TEXT}, "answer")] if self.answer else tools

    def searching(self, query: str, **options: Json) -> dict[str, Json]:
        """A search for one query."""
        return call(self.search, {self.query: [query] if self.listed else query, **options})

    def opening(self, url: str, **options: Json) -> dict[str, Json]:
        """Opening a page."""
        return call(self.open, {self.url: url, **options})

    def finding(self, pattern: str, url: str) -> dict[str, Json]:
        """Looking for a text on a page."""
        return call(self.find, {self.pattern: pattern, "url": url})


FAMILIES = (
    Tools("search", "query", "open", "url", "find", "pattern", "answer"),
    Tools("web_search", "q", "visit", "url", "find_in_page", "text", "final_answer", options=("goal",)),
    Tools("search", "queries", "open_page", "url", "find_text", "pattern", "", listed=True),
)


def family_of(fact: Fact) -> Tools:
    """The tools of the agent that is asked about a fact."""
    return FAMILIES[random.Random(fact.question).randrange(len(FAMILIES))]


def _tool(name: str, properties: Mapping[str, Json], *required: str) -> dict[str, Json]:
    parameters = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"type": "function", "name": name, "description": "", "parameters": parameters, "strict": False}


def asked(question: str, tools: Tools, *seen: dict[str, Json]) -> dict[str, Json]:
    """`responses_create_params` of a question, with items of the conversation since then."""
    task = "Answer the question. Search, open pages and look things up before you answer."
    return {
        "input": [{"role": "system", "content": task}, {"role": "user", "content": question}, *seen],
        "tools": tools.schemas(),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
    }


def opened(tools: Tools, page: Page, text: str) -> list[dict[str, Json]]:
    """A page that was opened: the call and what it returned."""
    return _done(tools.opening(page.url), text, "1")


def searched(tools: Tools, query: str, found: str) -> list[dict[str, Json]]:
    """A search that was made: the call and what it returned."""
    return _done(tools.searching(query), found, "0")


def _done(action: dict[str, Json], output: str, number: str) -> list[dict[str, Json]]:
    identity = f"call_{number}"
    return [
        {**action, "call_id": identity, "status": "completed"},
        {"type": "function_call_output", "call_id": identity, "output": output},
    ]
