"""IFBench (embedded): does the answer obey constraints that a program can check?

Data set: own items in the style of IFBench (precise instruction following), `data/ifbench.jsonl`.
Licence: Apache-2.0, as this project; no text of the official set is used.
Items: 40 with one or two constraints of 14 kinds; a negative one ('no commas') comes with a positive one.
    At most 40 new tokens.
Prompt: the instruction alone, as one user message.
Extraction: none, the whole answer is judged; an empty answer counts as not parsed.
Metric: prompt-level loose accuracy: all constraints hold for at least one of eight variants of the answer (with or
    without its first line, its last line, and its asterisks). Strict accuracy (the answer as it is) is a component.
Floor: a fixed text that ignores the instruction meets up to 0.23; 'OK' meets 0.08.
Source: https://github.com/allenai/IFBench (rule); arXiv 2507.02833.

Embedded: differs from the official benchmark in
1. items and constraint kinds: ours are everyday ones ('lower case only'), the official 58 are made to be hard;
2. size: 40 prompts instead of 300.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pivotrl_core.evaluation.protocol import Item, ItemScore
from pivotrl_core.files import read_jsonl
from pivotrl_core.types import Json, Message, Role

_DATA = Path(__file__).with_name("data") / "ifbench.jsonl"


class IFBench:
    """See the module's data sheet."""

    name = "ifbench-embedded"
    metric = "loose accuracy"
    max_tokens = 40
    needs_sandbox = False

    def items(self) -> Sequence[Item]:
        return [Item(row["id"], (Message(Role.USER, row["prompt"]),), row) for row in read_jsonl(_DATA)]

    def reference(self, item: Item) -> str:
        """An answer that scores 1."""
        return str(item.content["gold"])

    def score(self, item: Item, answer: str) -> ItemScore:
        constraints = item.content["constraints"]
        strict = _follows_all(answer, constraints)
        loose = any(_follows_all(variant, constraints) for variant in _variants(answer))
        return ItemScore(float(loose), bool(answer.strip()), answer, {"strict": strict, "loose": loose})


def _variants(answer: str) -> list[str]:
    """The eight texts of the loose rule: a preface line, a closing line and Markdown emphasis are forgiven."""
    lines = answer.split("\n")
    cuts = (lines, lines[1:], lines[:-1], lines[1:-1])
    texts = ["\n".join(cut).strip() for cut in cuts]
    return texts + [text.replace("*", "") for text in texts]


def _follows_all(text: str, constraints: Sequence[Mapping[str, Json]]) -> bool:
    return bool(text.strip()) and all(_CHECKS[c["kind"]](text.strip(), c) for c in constraints)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)


def _has_word(text: str, word: str) -> bool:
    return word.lower() in (found.lower() for found in _words(text))


def _lowercase(text: str, _: Mapping[str, Json]) -> bool:
    return text == text.lower() and any(char.isalpha() for char in text)


def _uppercase(text: str, _: Mapping[str, Json]) -> bool:
    return text == text.upper() and any(char.isalpha() for char in text)


def _include(text: str, constraint: Mapping[str, Json]) -> bool:
    return all(_has_word(text, word) for word in constraint["words"])


def _exclude(text: str, constraint: Mapping[str, Json]) -> bool:
    return not any(_has_word(text, word) for word in constraint["words"])


def _max_words(text: str, constraint: Mapping[str, Json]) -> bool:
    return len(_words(text)) <= int(constraint["n"])


def _min_words(text: str, constraint: Mapping[str, Json]) -> bool:
    return len(_words(text)) >= int(constraint["n"])


def _starts_with(text: str, constraint: Mapping[str, Json]) -> bool:
    return bool(re.match(re.escape(constraint["text"]) + r"(?!\w)", text))  # not a longer word


def _ends_with(text: str, constraint: Mapping[str, Json]) -> bool:
    return text.endswith(constraint["text"])


def _no_comma(text: str, _: Mapping[str, Json]) -> bool:
    return "," not in text


def _no_digits(text: str, _: Mapping[str, Json]) -> bool:
    return not any(char.isdigit() for char in text)


def _quoted(text: str, _: Mapping[str, Json]) -> bool:
    return len(text) > 2 and text[0] == text[-1] == '"'


def _bullets(text: str, constraint: Mapping[str, Json]) -> bool:
    return len(re.findall(r"(?m)^[ \t]*\*[^*\n]", text)) == int(constraint["n"])  # two stars begin bold text


def _repeat(text: str, constraint: Mapping[str, Json]) -> bool:
    return [word.lower() for word in _words(text)].count(constraint["word"]) == int(constraint["n"])


def _json_object(text: str, _: Mapping[str, Json]) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_CHECKS: Mapping[str, Callable[[str, Mapping[str, Json]], bool]] = {
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "include": _include,
    "exclude": _exclude,
    "max_words": _max_words,
    "min_words": _min_words,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "no_comma": _no_comma,
    "no_digits": _no_digits,
    "quoted": _quoted,
    "bullets": _bullets,
    "repeat": _repeat,
    "json_object": _json_object,
}
