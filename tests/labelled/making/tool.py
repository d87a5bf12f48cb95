"""Make `tests/labelled/tool/pairs.jsonl.gz` and `sampled.json`: `python -m tests.labelled.making.tool`.

The same bytes again, whatever the machine: model samples and labelled airline pairs are read from files beside the set.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from pivotrl_core.environments.helpdesk.domain import HelpdeskDomain
from pivotrl_core.types import Json, Message, Role, Split, Tool, ToolCall
from tests.labelled.making import tool_rules as rules
from tests.labelled.making.tool_airline import LINES
from tests.labelled.making.tool_desk import SEED, TASKS, desk_lines, sampled_counts
from tests.labelled.making.tool_kit import Family
from tests.labelled.making.tool_lines import Labels, as_text, labelled_line, spread
from tests.labelled.making.tool_messages import MESSAGES
from tests.labelled.making.tool_schemas import FAMILIES
from tests.labelled.making.tool_texts import WORDINGS

FOLDER = LINES.parent
MOST = {"valid": 40, "wrong": 16}
"""Pairs of one kind that policies sampled: what is easy comes often."""


def _call(tool: Tool, arguments: dict[str, Json] | str) -> ToolCall:
    return ToolCall(tool.name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))


def _user(text: str) -> list[Message]:
    return [Message(Role.SYSTEM, "Use the tools to do what the user asks for."), Message(Role.USER, text)]


def family_lines() -> Iterator[dict[str, Json]]:
    """Calls under schemas, rewritten by rules."""
    for family in FAMILIES:
        for expert in family.calls:
            for label, kinds in (("valid", family.valid), ("wrong", family.wrong)):
                for kind, rule in kinds:
                    changed = rule(expert)
                    if changed is not None and (changed != expert or rule is rules.order_of_keys):
                        labels = Labels(label, kind, "rewritten", "by_construction")
                        calls = [_call(family.tool, expert)], [_call(family.tool, changed)]
                        yield labelled_line(_state_of(family, expert), (family.tool,), *calls, labels)


def _state_of(family: Family, expert: dict[str, Json]) -> list[Message]:
    asked = family.request.format(**expert)
    return _user(f"{asked} In full: {'; '.join(f'{name} {value}' for name, value in expert.items())}.")


def parallel_lines() -> Iterator[dict[str, Json]]:
    """Several calls at once, of one tool or two."""
    for first, second in zip(FAMILIES, FAMILIES[1:] + FAMILIES[:1], strict=True):
        calls = [_call(first.tool, one) for one in first.calls[:2]] + [_call(second.tool, second.calls[2])]
        respelt = [_call(first.tool, rules.order_of_keys(one) or one) for one in first.calls[:2]]
        one, two, three = calls
        changed = next(
            _call(first.tool, found) for _, rule in first.wrong if (found := rule(first.calls[1])) is not None
        )
        mixed = [ToolCall(one.name, two.arguments), two, three]
        valid = {
            "calls_in_other_order": [three, one, two],
            "calls_respelt_in_other_order": [respelt[1], three, respelt[0]],
        }
        wrong = {
            "call_missing": [one, three],
            "call_twice": [*calls, one],
            "call_surplus": [*calls, _call(second.tool, second.calls[0])],
            "one_call_changed": [one, changed, three],
            "one_call_in_place_of_another": mixed,
        }
        state = _user(
            f"Two things with {first.tool.name}, and one with {second.tool.name}: "
            + " / ".join(call.arguments for call in calls)
        )
        for label, kinds in (("valid", valid), ("wrong", wrong)):
            for kind, actual in kinds.items():
                labels = Labels(label, kind, "rewritten", "by_construction")
                yield labelled_line(state, (first.tool, second.tool), calls, actual, labels)


def text_lines() -> Iterator[dict[str, Json]]:
    """Calls whose free text is worded otherwise, by hand."""
    for tool, argument, wordings in WORDINGS:
        for wording in wordings:
            state = _user(f"({tool.description}) {wording.text}")
            expert = [_call(tool, {argument: wording.text})]
            for label, texts in (("valid", wording.valid), ("wrong", wording.wrong)):
                for kind, text in texts:
                    labels = Labels(label, kind, "rewritten", "by_hand")
                    yield labelled_line(state, (tool,), expert, [_call(tool, {argument: text})], labels)


def message_lines() -> Iterator[dict[str, Json]]:
    """Messages that policies sampled at the help desk, labelled by hand."""
    domain = HelpdeskDomain()
    tasks = {task.id: task for task in domain.tasks(Split.TRAIN, TASKS, SEED)}
    for task, seed, turn, valid, wrong in MESSAGES:
        messages = domain.expert_trajectory(tasks[task], seed).messages
        place = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT][turn]
        expert = messages[place].content
        tools = domain.environment().tools
        for text in valid:
            labels = Labels("valid", "message_in_other_words", "model", "by_hand", "helpdesk")
            yield labelled_line(messages[:place], tools, expert, text, labels)
        for kind, text in wrong:
            labels = Labels("wrong", f"message_{kind}", "model", "by_hand", "helpdesk")
            yield labelled_line(messages[:place], tools, expert, text, labels)


def airline_lines() -> list[dict[str, Json]]:
    """Of real conversations."""
    return [json.loads(line) for line in gzip.decompress(LINES.read_bytes()).decode().splitlines()]


def thinned(lines: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Not more than `MOST` of one kind, chosen by their ids."""
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for line in sorted(lines, key=lambda line: sha256(line["pair"].encode()).digest()):
        place = (line["label"], line["kind"])
        counts[place] += 1
        if counts[place] <= MOST[line["label"]]:
            kept.append(line)
    return kept


def main() -> None:
    """Write both files."""
    natural = thinned([*spread(desk_lines()), *airline_lines()])
    rewritten = [*family_lines(), *parallel_lines(), *text_lines()]
    lines = spread([*natural, *message_lines(), *rewritten])
    (FOLDER / "pairs.jsonl.gz").write_bytes(gzip.compress(as_text(lines).encode(), 9, mtime=0))
    (FOLDER / "sampled.json").write_text(json.dumps(sampled_counts()) + "\n")
    for place, count in sorted(Counter((line["origin"], line["label"]) for line in lines).items()):
        print(*place, count)


if __name__ == "__main__":
    main()
