"""Between messages and token ids: what a policy reads at a state, what an action is in tokens, and back.

Text goes through the model's own chat template. A template that knows no tools (or the `compact` format) gets them in
the system message, and tool results as user messages. A conversation is tokenised turn by turn at the borders of
assistant turns, so that the ids of a state are a prefix of the ids of every later state, and an action that was sampled
stays the ids that were sampled. Where a template rewrites earlier turns (it strips thinking, say), the rest of the
text is tokenised as one piece from there: longer, never wrong.

What the template does is found by rendering: the token that ends a turn (`eos_token` is another one in some families),
whether it opens the thinking for the policy, whether pieces need an anchor. It never sees the real date: the same
conversation is the same ids every day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

from jinja2 import TemplateError

from pivotrl_core.errors import ConfigError
from pivotrl_core.trajectories.formatting import CLOSE_TAG, OPEN_TAG, ToolFormat, format_turn, tools_listing
from pivotrl_core.trajectories.parsing import parse_action
from pivotrl_core.trajectories.thinking import CLOSE, OPEN
from pivotrl_core.types import Action, Json, Message, Role, Tool, tools_to_json

THOUGHT = f"{OPEN}\nx\n{CLOSE}\n\nx"  # a turn with thinking, spaced as models write it
# What templates write today's date by: a variable in some families, a function in others. transformers lets no
# function in from outside, so a macro of the same name goes before the template.
_DATE_VARIABLE: Mapping[str, Json] = {"date_string": "01 Jan 2025"}
_DATE_FUNCTION = (
    "{%- macro strftime_now(format) -%}{{ '2025-01-01' if '-' in format else '01 Jan 2025' }}{%- endmacro -%}"
)
_LONGEST_KEPT = 4096  # characters of a piece whose ids are kept
_MARK = "\u00a7"  # a turn that is found again in what a template made of it


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The conversation rendered last, with the text of each of its states that is known, by the number of messages.

    A state's text is made of that of every state before it: else each would be rendered once for each later turn.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)

    def of(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[int, str]:
        """Those texts that are states of this conversation too."""
        if self.tools != tuple(tools):
            return {}
        pairs = zip(self.messages, messages, strict=False)
        shared = next((index for index, (own, other) in enumerate(pairs) if own != other), None)
        longest = min(len(self.messages), len(messages)) if shared is None else shared
        return {count: text for count, text in self.texts.items() if count <= longest}


class ChatRenderer:
    """Renders conversations for one tokenizer and one way of writing tool calls.

    Args:
        tokenizer: of transformers, with a chat template.
        tool_format: how tool calls are written.
        variables: of the chat template, such as `enable_thinking`.

    Attributes:
        eos_id: id of the token that ends an assistant's turn, and `eos_text` its text.
        opens_thinking: the template itself writes the mark that begins the thinking, as those of some models do that
            always think: a turn that never closes it is malformed, and one that is given to the policy closes it.

    Raises:
        ConfigError: the tokenizer has no chat template, or it ends no turn; later, it refuses a conversation.
    """

    def __init__(
        self, tokenizer: Any, tool_format: ToolFormat | str, variables: Mapping[str, Json] | None = None
    ) -> None:
        if not tokenizer.chat_template:
            raise ConfigError("model: its tokenizer has no chat template; choose an instruction model")
        self.tokenizer = tokenizer
        self.tool_format = ToolFormat(tool_format)
        self._variables = {**_DATE_VARIABLE, **(variables or {})}
        self.native_tools = self.tool_format is ToolFormat.HERMES and "tools" in _tool_template(tokenizer.chat_template)
        # Some tokenizers have the marks of thinking and calling as special tokens: those may stand inside a turn.
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        names = special.union(tokenizer.all_special_tokens) - {OPEN, CLOSE, OPEN_TAG, CLOSE_TAG}
        self._special = frozenset(tokenizer.convert_tokens_to_ids(sorted(names)))
        self._lock = Lock()
        self._anchor, self._anchor_ids = _anchor(tokenizer)
        self._encode_short = lru_cache(maxsize=65536)(self._encode_uncached)
        self._earlier = _Earlier()
        self.eos_id, self.eos_text = self._end_of_turn()
        self.opens_thinking = self._text([Message(Role.USER, "x")], ()).rstrip().endswith(OPEN)

    def _end_of_turn(self) -> tuple[int, str]:
        text = self._text([Message(Role.USER, "x"), Message(Role.ASSISTANT, _MARK)], (), prompt=False)
        _, found, tail = text.rpartition(_MARK)
        ids = self._encode(tail.lstrip()) if found else ()
        if not ids or ids[0] not in {*self.tokenizer.added_tokens_decoder, *self.tokenizer.all_special_ids}:
            raise ConfigError(
                "model: its chat template ends the assistant's turn with no special token, so that a policy could not "
                "say that it has ended; choose an instruction model, or edit the template"
            )
        return ids[0], self.decode(ids[:1])

    def _encode(self, text: str) -> tuple[int, ...]:
        """Ids of a piece. Turns and results come again with each later state; whole states, which are long, do not."""
        return self._encode_short(text) if len(text) <= _LONGEST_KEPT else self._encode_uncached(text)

    def state_ids(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """Ids of a state: the conversation so far, up to where the next assistant turn begins."""
        earlier = self._earlier.of(messages, tools)
        text = self._text(messages, tools)
        self._earlier = _Earlier(tuple(messages), tuple(tools), {**earlier, len(messages): text})
        ids: list[int] = []
        cursor = 0
        for index, message in enumerate(messages):
            if message.role is not Role.ASSISTANT:
                continue
            before = earlier[index] if index in earlier else self._text(messages[:index], tools)
            turn = self.turn_text(message)
            end = before + turn + self.eos_text
            if not text.startswith(end):
                break
            ids += [*self._encode(text[cursor : len(before)]), *self._encode(turn), self.eos_id]
            cursor = len(end)
        return (*ids, *self._encode(text[cursor:]))

    def following_ids(self, messages: Sequence[Message], thought: bool = False) -> tuple[int, ...]:
        """Ids between an assistant turn that has just ended and the next one: what the environment answered.

        Args:
            messages: the answer.
            thought: whether this turn or an earlier one holds thinking, which some templates cut once the user speaks.

        Raises:
            ConfigError: the template rewrites such turns: what the policy has read would be no beginning of its state.
        """
        if thought and self._opened(THOUGHT, messages) is None:
            raise ConfigError(
                "model: its chat template cuts the thinking of earlier turns, and this policy thinks; episodes need a "
                "template that only appends, or a policy that does not think (a warm-up writes no thinking)"
            )
        following = self._opened("x", messages)
        if following is None:
            raise ConfigError("model: its chat template rewrites earlier turns; episodes need one that only appends")
        return self._encode(following)

    def _opened(self, turn: str, messages: Sequence[Message]) -> str | None:
        """The template's text behind an assistant turn that some messages follow; None where it rewrote that turn."""
        opening = [Message(Role.USER, "x"), Message(Role.ASSISTANT, turn)]
        text = self._text([*opening, *messages], ())
        before = self._text(opening[:1], ()) + turn + self.eos_text
        return text[len(before) :] if text.startswith(before) else None

    def turn_text(self, message: Message) -> str:
        """What an assistant message says and does, as the policy would write it. Thinking is not written."""
        try:
            return format_turn(message, self.tool_format)
        except ValueError as error:
            raise ConfigError(f"data.tool_format: {error}") from error

    def action_ids(self, message: Message) -> tuple[int, ...]:
        """Ids of an assistant message, with the end-of-turn id. Thinking that the template opened is closed."""
        thinking = f"{message.thinking.strip()}\n{CLOSE}\n\n" if self.opens_thinking else ""
        return (*self._encode(thinking + self.turn_text(message)), self.eos_id)

    def parse(self, ids: Sequence[int], tools: Sequence[Tool]) -> Action:
        """The action that a policy wrote. A turn that was cut off is malformed: it never reached its end."""
        ended = bool(ids) and ids[-1] == self.eos_id
        body = ids[:-1] if ended else ids
        text = self.written(body)
        if not ended:
            return Action(text=text, error="cut off before the end of the turn")
        if not self.is_one_turn(ids):
            return Action(text=text, error="a special token inside the turn")
        return parse_action(text, self.tool_format, tools)

    def is_one_turn(self, ids: Sequence[int]) -> bool:
        """Whether an action's ids hold no special token before their end: text that spells one is read as one."""
        return self._special.isdisjoint(ids[:-1]) and self.eos_id not in ids[:-1]

    def written(self, ids: Sequence[int]) -> str:
        """What a policy wrote, without the end of the turn; with the mark of thinking that the template opened."""
        return (OPEN if self.opens_thinking else "") + self.decode([one for one in ids if one != self.eos_id])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        return str(self.tokenizer.decode(list(ids)))

    def _text(self, messages: Sequence[Message], tools: Sequence[Tool], prompt: bool = True) -> str:
        """The template's text of a conversation; with `prompt`, up to where the assistant's next turn begins."""
        plain = [self._plain(message) for message in messages]
        arguments: dict[str, Any] = dict(self._variables)
        if self.native_tools:
            arguments["tools"] = [{"type": "function", "function": tool} for tool in tools_to_json(tools)] or None
        elif tools:
            plain = _with_listing(plain, tools_listing(tools))
        template = self.tokenizer.get_chat_template(None, arguments.get("tools"))
        if "strftime_now" in template:
            template = _DATE_FUNCTION + template
        try:
            text = self.tokenizer.apply_chat_template(
                plain, tokenize=False, add_generation_prompt=prompt, chat_template=template, **arguments
            )
        except TemplateError as error:
            roles = ", ".join(one["role"] for one in plain)
            raise ConfigError(
                f"model: its chat template refuses a conversation of {roles} ({error}); use a model whose template "
                "takes system messages and several tool results in a row, or edit the template"
            ) from error
        return str(text)

    def _plain(self, message: Message) -> dict[str, str]:
        if message.role is Role.ASSISTANT:
            return {"role": "assistant", "content": self.turn_text(message)}
        if message.role is Role.TOOL and not self.native_tools:
            return {"role": "user", "content": f"result: {message.content}"}
        return {"role": str(message.role), "content": message.content}

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text."""
        return tuple(self._encode(text))

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        with self._lock:  # a fast tokenizer is borrowed by one thread at a time
            ids = tuple(self.tokenizer(self._anchor + text, add_special_tokens=False).input_ids)
            skipped = len(self._anchor_ids)
            if ids[:skipped] == self._anchor_ids:
                return ids[skipped:]
            return tuple(self.tokenizer(text, add_special_tokens=False).input_ids)


def _anchor(tokenizer: Any) -> tuple[str, tuple[int, ...]]:
    """Text, with its ids, that goes before each piece where a tokenizer writes a space before whatever it is given.

    A conversation in pieces would have such a space at each border, where its text as a whole has none.
    """
    line, letter, both = (tuple(tokenizer(text, add_special_tokens=False).input_ids) for text in ("\n", "x", "\nx"))
    return ("", ()) if both == line + letter else ("\n", line)


def _with_listing(plain: list[dict[str, str]], listing: str) -> list[dict[str, str]]:
    """The tool listing behind the system message, or as one where there is none."""
    if plain and plain[0]["role"] == "system":
        return [{"role": "system", "content": f"{plain[0]['content']}\n{listing}"}, *plain[1:]]
    return [{"role": "system", "content": listing}, *plain]


def _tool_template(template: str | Mapping[str, str]) -> str:
    """The text that renders a conversation with tools; a tokenizer may have several templates, by name."""
    return template if isinstance(template, str) else template.get("tool_use") or template.get("default", "")
