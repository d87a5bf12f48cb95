"""Frozen records that the whole project shares: messages, tools, trajectories, candidates, samples and verdicts.

Invariants: ids are hashes of content, so equal content has one id wherever it came from; arguments of a tool call stay
the raw JSON text that was recorded, so that nothing is lost on the way to a verifier.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Any


def canonical_json(value: Json) -> str:
    """One text per value: sorted keys, no spaces, UTF-8 kept. NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def ordered_json(value: Json) -> str:
    """Compact JSON with keys in their own order: for what a policy reads, where another order is another prompt."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_id(value: Json) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Split(StrEnum):
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `arguments` is the raw JSON text as it was written, valid or not."""

    name: str
    arguments: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `thinking` is kept apart from `content` and is never part of a state."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool offered to the agent; `parameters` is a JSON schema of type object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A recorded run of an agent. `group` names what must stay in one split (a task id); defaults to the id."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    domain: str = "tool"
    source: str = ""
    group: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Hash of messages and tools: where a trajectory came from does not change which one it is."""
        return content_id([messages_to_json(self.messages), ordered_json(tools_to_json(self.tools))])


@dataclass(frozen=True, slots=True)
class Candidate:
    """One assistant turn of one trajectory: state s (everything before it, with the tools) and expert action a*."""

    state: tuple[Message, ...]
    tools: tuple[Tool, ...]
    expert: Message
    trajectory_id: str
    turn_index: int
    domain: str = "tool"
    split: Split = Split.TRAIN
    metadata: Mapping[str, Json] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Hash of state, tools and expert action: a turn that two trajectories share has one id."""
        tools = ordered_json(tools_to_json(self.tools))
        return content_id([messages_to_json(self.state), tools, message_to_json(self.expert)])


@dataclass(frozen=True, slots=True)
class Action:
    """What a policy did at a state, parsed from the tokens it wrote.

    `error` is empty for a well-formed action; a malformed one keeps its text and says here what is wrong with it.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    text: str = ""
    error: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verifier's judgement of one action: reward in [0, 1], the components it is derived from, and the reason.

    How long each part took (`timings`, seconds) and the version of the `verifier` say nothing about the action: they
    are neither compared nor stored with it.
    """

    reward: float
    reason: str
    components: Mapping[str, Json] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    verifier: str = field(default="", compare=False)


def message_to_json(message: Message) -> dict[str, Json]:
    """The message as plain JSON in OpenAI chat form; empty fields are left out. `call_id`s are not content."""
    out: dict[str, Json] = {"role": str(message.role), "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    if message.thinking:
        out["thinking"] = message.thinking
    return out


def messages_to_json(messages: Sequence[Message]) -> list[dict[str, Json]]:
    """`message_to_json` of each."""
    return [message_to_json(message) for message in messages]


def message_from_json(value: Mapping[str, Json]) -> Message:
    """Inverse of `message_to_json` (not a reader of foreign files: `trajectories/` validates those)."""
    calls = tuple(ToolCall(call["name"], call["arguments"]) for call in value.get("tool_calls", ()))
    return Message(Role(value["role"]), value.get("content", ""), calls, thinking=value.get("thinking", ""))


def tools_to_json(tools: Sequence[Tool]) -> list[dict[str, Json]]:
    """Each tool as {name, description, parameters}."""
    return [{"name": t.name, "description": t.description, "parameters": dict(t.parameters)} for t in tools]


def tools_from_json(value: Sequence[Mapping[str, Json]]) -> tuple[Tool, ...]:
    """Inverse of `tools_to_json`."""
    return tuple(Tool(t["name"], t.get("description", ""), t.get("parameters", {})) for t in value)
