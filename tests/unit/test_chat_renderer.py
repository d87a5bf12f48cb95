"""Ids of states, of actions and of what comes between them fit together, whatever the template does."""

from __future__ import annotations

import itertools
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Request
from pivotrl_core.engines.stems import REWRITTEN, common_prefix, plan_stems
from pivotrl_core.errors import ConfigError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.training.supervised import trajectory_rows
from pivotrl_core.types import Message, Role, Split, Tool, ToolCall, Trajectory
from tests.tiny_models import CHATML, CHATML_CUTTING, CHATML_REWRITING, CHATML_TOOLS, EOS, tiny_tokenizer

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = (Tool("find", "Find an order.", SCHEMA), Tool("close", "Close it.", {"type": "object", "properties": {}}))
SYSTEM = Message(Role.SYSTEM, "You are a helpful agent.")
CALL = Message(Role.ASSISTANT, tool_calls=(ToolCall("find", '{"id": "A17"}'), ToolCall("close", "{}")))
SAY = Message(Role.ASSISTANT, "Your order A17 was sent.")
CONVERSATION = (
    SYSTEM, Message(Role.USER, "Where is A17?"), CALL, Message(Role.TOOL, "sent"), Message(Role.TOOL, "closed"), SAY,
    Message(Role.USER, "Thanks, bye."), Message(Role.ASSISTANT, "Good-bye."),
)  # fmt: skip


def shipped(name: str) -> str:
    """A family's own template, as trl carries it."""
    return (files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


QWEN3, QWEN3_THINKING = shipped("qwen3"), shipped("qwen3_5_think")
RENDERERS = {
    "compact": (CHATML, "compact"), "hermes": (CHATML, "hermes"), "hermes-native": (CHATML_TOOLS, "hermes"),
}  # fmt: skip
EACH = pytest.mark.parametrize("name", list(RENDERERS))


def renderer(name: str) -> ChatRenderer:
    template, tool_format = RENDERERS[name]
    return ChatRenderer(tiny_tokenizer(template), tool_format)


def turns(messages: tuple[Message, ...]) -> list[int]:
    return [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]


@EACH
def test_a_state_and_its_action_begin_every_later_state(name: str) -> None:
    one = renderer(name)
    ids: tuple[int, ...] = ()
    for index in turns(CONVERSATION):
        state = one.state_ids(CONVERSATION[:index], TOOLS)
        assert state[: len(ids)] == ids
        ids = (*state, *one.action_ids(CONVERSATION[index]))
    assert len(ids) > 100


@EACH
def test_what_follows_a_turn_is_what_the_next_state_appends(name: str) -> None:
    one = renderer(name)
    places = turns(CONVERSATION)
    for index, following in itertools.pairwise(places):
        played = (*one.state_ids(CONVERSATION[:index], TOOLS), *one.action_ids(CONVERSATION[index]))
        answered = one.following_ids(CONVERSATION[index + 1 : following])
        assert (*played, *answered) == one.state_ids(CONVERSATION[:following], TOOLS)


@EACH
def test_an_action_is_read_as_it_was_written(name: str) -> None:
    one = renderer(name)
    for message in (CALL, SAY):
        action = one.parse(one.action_ids(message), TOOLS)
        assert (action.error, action.content) == ("", message.content)
        assert [(c.name, c.arguments) for c in action.tool_calls] == [(c.name, c.arguments) for c in message.tool_calls]


@given(st.text(st.characters(codec="utf-8", exclude_characters="@<{"), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_message_is_read_as_it_was_written(text: str) -> None:
    action = COMPACT.parse(COMPACT.action_ids(Message(Role.ASSISTANT, text)), TOOLS)
    assert (action.content, action.tool_calls, action.error) == (text.strip(), (), "")


WORDS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=2, max_size=8)


@given(WORDS)
@settings(max_examples=60, deadline=None)
def test_states_of_any_conversation_are_prefixes_of_later_ones(texts: list[str]) -> None:
    roles = [Role.USER, Role.ASSISTANT]
    messages = tuple(Message(roles[i % 2], text) for i, text in enumerate(texts))
    states = [COMPACT.state_ids(messages[:index], TOOLS) for index in turns(messages)]
    for first, second in itertools.pairwise(states):
        assert second[: len(first)] == first
    whole = COMPACT.state_ids(messages, ())
    assert COMPACT.decode(whole) == rendered(CHATML, messages)


def rendered(template: str, messages: tuple[Message, ...]) -> str:
    """The text that the template itself makes of plain messages."""
    assistants = [message for message in messages if message.role is Role.ASSISTANT]
    plain = [{"role": str(m.role), "content": COMPACT.turn_text(m) if m in assistants else m.content} for m in messages]
    tokenizer = tiny_tokenizer(template)
    return str(tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True))


COMPACT = renderer("compact")


def test_a_turn_that_was_cut_off_is_malformed_and_keeps_its_text() -> None:
    action = COMPACT.parse(COMPACT.action_ids(SAY)[:-1], TOOLS)
    assert action.error.startswith("cut off")
    assert action.text == SAY.content
    assert COMPACT.parse((), TOOLS).error.startswith("cut off")


def test_a_template_that_knows_no_tools_gets_them_in_the_system_message() -> None:
    text = COMPACT.decode(COMPACT.state_ids(CONVERSATION[:4], TOOLS))
    system = text.partition(EOS)[0]
    assert system.startswith("<|im_start|>system\nYou are a helpful agent.\n@find(id: string)  Find an order.")
    assert "<|im_start|>user\nresult: sent<|im_end|>" in text
    without = COMPACT.decode(COMPACT.state_ids(CONVERSATION[1:2], TOOLS))
    assert without.startswith("<|im_start|>system\n@find(id: string)")


def test_a_template_that_knows_tools_gets_schemas_and_tool_messages() -> None:
    one = renderer("hermes-native")
    assert one.native_tools
    text = one.decode(one.state_ids(CONVERSATION[:4], TOOLS))
    assert '"name": "find"' in text.partition(EOS)[0]
    assert '<tool_call>\n{"name": "find", "arguments": {"id": "A17"}}\n</tool_call>' in text
    assert "<tool_response>sent</tool_response>" in text
    assert "result: sent" not in text
    assert "<tools>" not in one.decode(one.state_ids(CONVERSATION[:2], ()))


@pytest.mark.parametrize("template", [CHATML, CHATML_REWRITING, CHATML_TOOLS, CHATML_CUTTING])
def test_states_that_come_one_after_another_are_those_that_come_alone(template: str) -> None:
    """What is kept of one conversation says nothing wrong of another that begins as it does, or has other tools."""
    one = ChatRenderer(tiny_tokenizer(template), "hermes")
    other = (*CONVERSATION[:2], Message(Role.ASSISTANT, "Which one?"), *CONVERSATION[3:])
    for messages, tools in ((CONVERSATION, TOOLS), (other, TOOLS), (CONVERSATION, TOOLS[:1]), (other[1:], TOOLS[:1])):
        for index in (2, 5, 7, 5, 8):
            alone = ChatRenderer(tiny_tokenizer(template), "hermes")
            assert one.state_ids(messages[:index], tools) == alone.state_ids(messages[:index], tools)


def test_a_state_is_rendered_once_where_the_states_of_a_trajectory_come_in_order() -> None:
    one = renderer("hermes")
    turn = (Message(Role.USER, "Go on."), SAY)
    conversation = tuple(itertools.chain(*[turn] * 20))
    rendered_texts = []
    plain = one._text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one, "_text", lambda *given: rendered_texts.append(1) or plain(*given))
        for index in turns(conversation):
            one.state_ids(conversation[:index], TOOLS)
    assert len(rendered_texts) == 20


def test_what_is_kept_of_long_pieces_is_nothing() -> None:
    one = renderer("compact")
    for index in range(3):
        one.state_ids([Message(Role.USER, f"{index} " + "word " * 2000)], ())
    assert sum(len(text) for text in one._earlier.texts.values()) < 12_000
    before = one._encode_short.cache_info().currsize
    one.encode("x" * 5000)
    one.encode("x" * 50)
    assert one._encode_short.cache_info().currsize == before + 1


def test_a_template_that_rewrites_earlier_turns_gets_its_own_text_all_the_same() -> None:
    one = ChatRenderer(tiny_tokenizer(CHATML_REWRITING), "compact")
    for index in turns(CONVERSATION):
        state = tuple(m if m.role is not Role.TOOL else Message(Role.USER, f"result: {m.content}")
                      for m in CONVERSATION[:index])  # fmt: skip
        assert one.decode(one.state_ids(CONVERSATION[:index], ())) == rendered(CHATML_REWRITING, state)
    assert "(@fi)<|im_end|>" in one.decode(one.state_ids(CONVERSATION[:4], ()))
    with pytest.raises(ConfigError, match="rewrites earlier turns"):
        one.following_ids([Message(Role.USER, "Go on.")])


def test_a_template_that_cuts_thinking_is_noticed_where_a_policy_thinks() -> None:
    one = ChatRenderer(tiny_tokenizer(CHATML_CUTTING), "compact")
    user, tool = [Message(Role.USER, "Go on.")], [Message(Role.TOOL, "sent")]
    assert one.following_ids(user) == COMPACT.following_ids(user) == COMPACT.following_ids(user, thought=True)
    with pytest.raises(ConfigError, match=r"cuts the thinking .*a policy that does not think"):
        one.following_ids(user, thought=True)
    kept = ChatRenderer(tiny_tokenizer(QWEN3), "hermes")
    assert kept.decode(kept.following_ids(tool, thought=True)).startswith("\n<|im_start|>user\n<tool_response>")
    with pytest.raises(ConfigError, match="cuts the thinking"):
        kept.following_ids(user, thought=True)


def test_what_a_model_or_a_format_cannot_carry_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="no chat template"):
        ChatRenderer(tiny_tokenizer(""), "compact")
    spaced = Message(Role.ASSISTANT, tool_calls=(ToolCall("my tool", "{}"),))
    with pytest.raises(ConfigError, match=r"data.tool_format: .*'my tool'; use hermes"):
        COMPACT.action_ids(spaced)
    picky = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
    with pytest.raises(ConfigError, match=r"refuses a conversation of system, user \(no system role\)"):
        ChatRenderer(tiny_tokenizer(picky), "compact").state_ids(CONVERSATION[:2], ())


def test_supervised_rows_train_on_every_turn_once_and_on_nothing_else() -> None:
    candidates = list(iterate_candidates(Trajectory(CONVERSATION, TOOLS), Split.TRAIN))
    for one, count in ((COMPACT, 1), (ChatRenderer(tiny_tokenizer(CHATML_REWRITING), "compact"), 3)):
        rows = trajectory_rows(candidates, one)
        assert len(rows) == count
        trained = "".join(one.decode([row.ids[place] for place in row.places]) for row in rows)
        assert trained == "".join(one.turn_text(candidate.expert) + EOS for candidate in candidates)
    (only_last,) = trajectory_rows(candidates[2:], COMPACT)
    assert COMPACT.decode([only_last.ids[place] for place in only_last.places]) == "Good-bye." + EOS


def test_a_special_token_inside_a_turn_is_no_message() -> None:
    tokenizer = tiny_tokenizer(CHATML)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|other|>"]})
    one = ChatRenderer(tokenizer, "compact")
    other = tokenizer.convert_tokens_to_ids("<|other|>")
    spoken = one.action_ids(SAY)
    assert one.parse(spoken, TOOLS).error == ""
    for ids in ((other, one.eos_id), (*spoken[:-1], other, one.eos_id), (one.eos_id, *spoken)):
        assert one.parse(ids, TOOLS).error == "a special token inside the turn"
        assert not one.is_one_turn(ids)
    assert one.is_one_turn(spoken)
    assert not one.is_one_turn(one.action_ids(Message(Role.ASSISTANT, f"It writes {EOS} at the end of each turn.")))


def test_marks_of_thinking_and_calling_may_be_special_tokens() -> None:
    tokenizer = tiny_tokenizer(CHATML)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<tool_call>", "</tool_call>", "<think>", "</think>"]})
    one = ChatRenderer(tokenizer, "hermes")
    assert one.parse(one.action_ids(CALL), TOOLS).tool_calls
    thought = one.parse((*one.encode("<think>\nhm\n</think>\n\nGood-bye."), one.eos_id), TOOLS)
    assert (thought.error, thought.content) == ("", "Good-bye.")


def test_of_several_templates_the_one_for_tools_decides_whether_the_model_lists_them_itself() -> None:
    tokenizer = tiny_tokenizer(CHATML)
    tokenizer.chat_template = {"default": CHATML, "tool_use": CHATML_TOOLS}
    several, alone = ChatRenderer(tokenizer, "hermes"), renderer("hermes-native")
    state = (SYSTEM, Message(Role.USER, "Where is A17?"))
    assert several.native_tools
    assert several.state_ids(state, TOOLS) == alone.state_ids(state, TOOLS)
    tokenizer.chat_template = {"default": CHATML}
    assert not ChatRenderer(tokenizer, "hermes").native_tools


@pytest.mark.parametrize(
    ("template", "end"),
    [("gemma3", "<end_of_turn>"), ("phi3", "<|end|>"), ("llama3_1", "<|eot_id|>"), ("qwen2_5", "<|im_end|>")],
)
def test_a_turn_ends_by_what_the_template_ends_it_with(template: str, end: str) -> None:
    tokenizer = tiny_tokenizer(shipped(template))
    tokenizer.add_special_tokens({"eos_token": "<eos>", "bos_token": "<bos>"})
    tokenizer.add_special_tokens({"additional_special_tokens": ["<end_of_turn>", "<|end|>", "<|eot_id|>", EOS]})
    one = ChatRenderer(tokenizer, "compact")
    assert (one.eos_text, one.decode([one.eos_id])) == (end, end)
    assert one.parse(one.action_ids(SAY), ()).content == SAY.content
    # Turn by turn and as a whole it is the same conversation.
    state = (Message(Role.USER, "Where?"), SAY, Message(Role.USER, "Thanks."))
    begin = (*one.state_ids(state[:1], ()), *one.action_ids(SAY))
    assert one.state_ids(state, ())[: len(begin)] == begin


@pytest.mark.parametrize("template", ["glm4moe", "smolvlm"])
def test_a_template_that_ends_no_turn_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="ends the assistant's turn with no special token"):
        ChatRenderer(tiny_tokenizer(shipped(template)), "hermes")


def test_thinking_that_the_template_opened_is_closed_or_malformed() -> None:
    one = ChatRenderer(tiny_tokenizer(QWEN3_THINKING), "hermes")
    asked = (SYSTEM, Message(Role.USER, "Where is A17?"))
    assert one.opens_thinking
    assert one.decode(one.state_ids(asked, TOOLS)).endswith("<think>\n")
    thinking = Message(Role.ASSISTANT, "", CALL.tool_calls, thinking="An order. I look it up.")
    assert one.decode(one.action_ids(thinking)).startswith("An order. I look it up.\n</think>\n\n<tool_call>")
    assert one.decode(one.action_ids(SAY)) == f"\n</think>\n\n{SAY.content}{EOS}"  # nothing was recorded
    for message in (thinking, SAY):
        action = one.parse(one.action_ids(message), TOOLS)
        assert (action.error, action.content, action.tool_calls) == ("", message.content, message.tool_calls)
        assert action.thinking == message.thinking
    for text in ("I think and think.", one.turn_text(CALL)):
        action = one.parse((*one.encode(text), one.eos_id), TOOLS)
        assert (action.error, action.tool_calls) == ("the thinking never ends", ())


def test_variables_reach_the_template() -> None:
    state = (Message(Role.USER, "Where?"),)
    quiet = ChatRenderer(tiny_tokenizer(QWEN3_THINKING), "hermes", {"enable_thinking": False})
    assert not quiet.opens_thinking
    assert quiet.decode(quiet.state_ids(state, ())).endswith("<think>\n\n</think>\n\n")
    assert quiet.decode(quiet.action_ids(SAY)) == SAY.content + EOS


def test_a_template_that_writes_the_date_writes_the_same_every_day() -> None:
    dated = "{{ date_string }}, {{ strftime_now('%Y-%m-%d') }}, {{ strftime_now('%d %b %Y') }}\n" + CHATML
    one = ChatRenderer(tiny_tokenizer(dated), "compact")
    assert one.decode(one.state_ids(CONVERSATION[:2], ())).startswith("01 Jan 2025, 2025-01-01, 01 Jan 2025\n")
    other = ChatRenderer(tiny_tokenizer(dated), "compact", {"date_string": "today"})
    assert other.decode(other.state_ids(CONVERSATION[:2], ())).startswith("today, ")


def test_pieces_have_no_space_before_them_that_the_whole_text_has_not() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")  # as SentencePiece models have it
    backend.decoder = decoders.Metaspace(prepend_scheme="first")
    state = (SYSTEM, Message(Role.USER, "Where is A17?"), SAY, Message(Role.USER, "Thanks, bye."))
    text = rendered(CHATML, state)
    trainer = trainers.BpeTrainer(
        vocab_size=90, special_tokens=["<|im_start|>", EOS], initial_alphabet=["\n", "x"], show_progress=False
    )
    backend.train_from_iterator(text.split("\n"), trainer)  # no token goes over the end of a line
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=EOS, chat_template=CHATML)
    one = ChatRenderer(tokenizer, "compact")
    pieces = "".join(tokenizer.convert_ids_to_tokens(one.state_ids(state, ())))
    assert pieces.replace("\u2581", " ") == text
    assert one.parse(one.action_ids(SAY), ()).content == SAY.content


def test_states_of_a_template_that_opens_the_thinking_still_share_what_they_begin_with() -> None:
    one = ChatRenderer(tiny_tokenizer(CHATML.replace("assistant\n", "assistant\n<think>\n")), "hermes")
    assert one.opens_thinking
    long = (SYSTEM, *CONVERSATION[1:] * 5)
    states = [one.state_ids(long[:index], TOOLS) for index in turns(long)]
    assert not any(after[: len(before)] == before for before, after in itertools.pairwise(states))
    ((longest, members),) = plan_stems([Request(str(at), ids, (0,)) for at, ids in enumerate(states)])
    assert (longest, len(members)) == (len(states) - 1, len(states))
    assert all(len(ids) - common_prefix([ids, states[-1]]) <= REWRITTEN for ids in states)
