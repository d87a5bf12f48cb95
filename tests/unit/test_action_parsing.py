"""Policy text becomes an action; a failed call is an error with a name, never a message."""

from __future__ import annotations

import pytest

from pivotrl_core.trajectories.formatting import OTHER_FORMAT, format_call, format_turn, tools_listing
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.types import Message, Role, Tool, ToolCall

TOOLS = (Tool("find"), Tool("cancel"))


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('@find {"id": "A1"}', [("find", '{"id": "A1"}')]),
        (' \n@find {"id":"A1"}\n\n@cancel {}\n', [("find", '{"id":"A1"}'), ("cancel", "{}")]),
        ("@find{}", [("find", "{}")]),
        ('@find {\n "id": "@cancel {}"\n}', [("find", '{\n "id": "@cancel {}"\n}')]),
        ("<think>which one?</think>\n@find {}", [("find", "{}")]),
        ('@find {"id": "</think>"}', [("find", '{"id": "</think>"}')]),
    ],
)
def test_compact_calls_keep_their_raw_arguments(text: str, calls: list[tuple[str, str]]) -> None:
    action = parse_action(text, "compact", TOOLS)
    assert (action.error, [(call.name, call.arguments) for call in action.tool_calls]) == ("", calls)
    assert (action.content, action.text) == ("", text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('@find {"id": "A1"', "arguments of find"),
        ("@find", "arguments of find are missing"),
        ("@find A1", "arguments of find are missing"),
        ("@find []", "arguments of find are missing"),
        ("@find {'id': 1}", "arguments of find"),
        ('@find {"x": NaN}', "NaN is not JSON"),
        ('@find {"x": 1, "x": 2}', "a key is given twice"),
        ("@fly {}", "no tool is named 'fly'"),
        ("@ {}", "expected a call"),
        ("@find {} please", "text after a call"),
        ("@find {}\nplease", "expected a call"),
        ("@find {} @cancel {}", "text after a call"),
        ("Sure!\n@find {}", "a call after text"),
        (block('{"name": "find", "arguments": {}}'), OTHER_FORMAT),
        ("Sure!" + block('{"name": "find"'), OTHER_FORMAT),
        ("<think>and then", "the thinking never ends"),
        ('@find {"x": ' + "[" * 100_000, "nested too deeply"),
        ("@find " + '{"x": ' * 80 + "1" + "}" * 80, "nested more than 64 levels"),
    ],
)
def test_a_failed_compact_call_is_an_error(text: str, error: str) -> None:
    action = parse_action(text, "compact", TOOLS)
    assert error in action.error
    assert (action.tool_calls, action.content, action.text) == ((), "", text)


@pytest.mark.parametrize(
    ("text", "content", "thinking"),
    [
        ("Which order?", "Which order?", ""),
        ("Write to a@b.c please.", "Write to a@b.c please.", ""),
        ("<think>hm</think>\n\nWhich order?", "Which order?", "hm"),
        ("hm</think>Which order?", "Which order?", "hm"),
        ("I ask. </think> Which order?", "Which order?", "I ask."),
        (
            'Or <tool_call>{"name": "find"}</tool_call>? No.\n</think>\n\nWhich order?',
            "Which order?",
            'Or <tool_call>{"name": "find"}</tool_call>? No.',
        ),
        ("Where does `</think>` stand?", "Where does `</think>` stand?", ""),
        ("<think>hm</think>\n<think>well</think> \n<think></think>Which order?", "Which order?", "hm\nwell"),
        ("", "", ""),
        ("Cite\n@article{key,\n  title={x}}", "Cite\n@article{key,\n  title={x}}", ""),
        ("So:\n@font-face {\n  src: url(x);\n}", "So:\n@font-face {\n  src: url(x);\n}", ""),
    ],
)
def test_anything_else_is_a_message(text: str, content: str, thinking: str) -> None:
    for tool_format in ("compact", "hermes"):
        action = parse_action(text, tool_format, TOOLS)
        assert (action.content, action.thinking, action.tool_calls, action.error) == (content, thinking, (), "")


def test_hermes_blocks_and_the_text_around_them() -> None:
    text = "<think>hm</think>Let me look." + block('{"name": "find", "arguments": {"id": "</tool_call>"}}')
    action = parse_action(text + block('{"arguments": "{\\"a\\": 1}", "name": "cancel"}'), "hermes", TOOLS)
    assert (action.error, action.content, action.thinking) == ("", "Let me look.", "hm")
    assert action.tool_calls == (ToolCall("find", '{"id": "</tool_call>"}'), ToolCall("cancel", '{"a": 1}'))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (block('{"name": "find", "arguments": {"id": 1}'), "<tool_call>:"),
        (block('{"name": "find"}'), "arguments of find are missing"),
        (block('{"name": "find", "arguments": ""}'), "arguments of find"),
        (block('{"name": "find", "arguments": null}'), "not a JSON object"),
        (block('{"name": "find", "arguments": [1]}'), "not a JSON object"),
        (block('{"arguments": {}}'), "names no tool"),
        (block('{"name": 7, "arguments": {}}'), "names no tool"),
        (block('{"name": "fly", "arguments": {}}'), "no tool is named 'fly'"),
        (block("find"), "holds no JSON object"),
        (block(""), "holds no JSON object"),
        ('<tool_call>{"name": "find", "arguments": {}}', "</tool_call> is missing"),
        ('{"name": "find", "arguments": {}}</tool_call>', "<tool_call> is missing"),
        ('{"name": "find", "arguments": {}}', "a call outside of <tool_call>"),
        ("<tool_call>", "holds no JSON object"),
        ('@find {"id": "A1"}', OTHER_FORMAT),
        ("Sure!\n @find {", OTHER_FORMAT),
        ('Sure!\n@fly {"id": 1}', OTHER_FORMAT),
    ],
)
def test_a_failed_hermes_call_is_an_error(text: str, error: str) -> None:
    action = parse_action(text, "hermes", TOOLS)
    assert error in action.error
    assert action.tool_calls == ()


def test_without_a_tool_list_any_name_may_be_called() -> None:
    assert parse_action("@fly {}", "compact").tool_calls == (ToolCall("fly", "{}"),)


def test_a_turn_is_written_in_either_format() -> None:
    turn = Message(Role.ASSISTANT, "Let me look.", (ToolCall("find", '{"id": 1}'),), thinking="hm")
    assert format_turn(turn, "compact") == '@find {"id": 1}'
    assert format_turn(turn, "hermes") == "Let me look.\n" + block('{"name": "find", "arguments": {"id": 1}}')
    assert format_turn(Message(Role.ASSISTANT, "Hello."), "compact") == "Hello."
    with pytest.raises(ValueError, match="cannot carry a tool named 'a b'"):
        format_call(ToolCall("a b", "{}"), "compact")


def test_the_tool_listing_is_one_signature_a_line() -> None:
    schema = {
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "detail": {"enum": ["short", "full"], "default": "short"},
            "items": {"type": "array", "items": {"type": "string"}},
            "day": {"type": "string", "format": "date"},
            "where": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["order_id", "items", "day"],
    }
    listing = tools_listing([Tool("find", "Find\n an order.", schema), Tool("stop")])
    assert listing == (
        '@find(order_id: string, detail: "short"|"full" = "short", items: [string], day: date, '
        "where?: {x: number})  Find an order.\n@stop()"
    )
