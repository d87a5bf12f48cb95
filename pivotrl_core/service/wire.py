"""What travels between the service and its client: candidates, actions and verdicts as JSON, nothing lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from pivotrl_core.types import (
    Action,
    Candidate,
    Json,
    Message,
    Role,
    Split,
    ToolCall,
    Verdict,
    tools_from_json,
    tools_to_json,
)

VERDICT_ROUTE = "/verdict"
HEALTH_ROUTE = "/health"


def encode(value: Json) -> bytes:
    """JSON in ASCII: what a policy wrote may hold half a surrogate pair, which UTF-8 cannot carry."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(body: bytes) -> str:
    """Names a request in its reply."""
    return hashlib.sha256(body).hexdigest()[:16]


def question(kind: str, candidate: Candidate, action: Action) -> bytes:
    """A request for the verdict of the verifier of a kind."""
    return encode({"kind": kind, "candidate": _candidate_json(candidate), "action": _action_json(action)})


def read_question(body: Mapping[str, Json]) -> tuple[str, Candidate, Action]:
    """Inverse of `question`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
    return str(body["kind"]), _candidate(body["candidate"]), _action(body["action"])


def verdict_json(verdict: Verdict) -> dict[str, Json]:
    """A verdict as JSON; how long it took stays behind."""
    return {
        "reward": verdict.reward, "reason": verdict.reason, "components": dict(verdict.components),
        "verifier": verdict.verifier,
    }  # fmt: skip


def read_verdict(value: Mapping[str, Json]) -> Verdict:
    """Inverse of `verdict_json`. Raises KeyError, TypeError or ValueError for anything else."""
    return Verdict(
        float(value["reward"]), str(value["reason"]), dict(value["components"]), verifier=str(value["verifier"])
    )


def _candidate_json(one: Candidate) -> dict[str, Json]:
    return {
        "state": [_message_json(message) for message in one.state], "tools": tools_to_json(one.tools),
        "expert": _message_json(one.expert), "trajectory_id": one.trajectory_id, "turn_index": one.turn_index,
        "domain": one.domain, "split": str(one.split), "metadata": dict(one.metadata),
    }  # fmt: skip


def _candidate(value: Mapping[str, Json]) -> Candidate:
    return Candidate(
        tuple(_message(message) for message in value["state"]),
        tools_from_json(value["tools"]),
        _message(value["expert"]),
        trajectory_id=value["trajectory_id"],
        turn_index=value["turn_index"],
        domain=value["domain"],
        split=Split(value["split"]),
        metadata=value["metadata"],
    )


def _message_json(one: Message) -> list[Json]:
    return [str(one.role), one.content, _calls_json(one.tool_calls), one.tool_call_id, one.thinking]


def _message(value: Json) -> Message:
    role, content, calls, call_id, thinking = value
    return Message(Role(role), content, _calls(calls), call_id, thinking)


def _action_json(one: Action) -> list[Json]:
    return [one.content, _calls_json(one.tool_calls), one.text, one.error, one.thinking]


def _action(value: Json) -> Action:
    content, calls, text, error, thinking = value
    return Action(content, _calls(calls), text, error, thinking)


def _calls_json(calls: tuple[ToolCall, ...]) -> list[Json]:
    return [[call.name, call.arguments, call.call_id] for call in calls]


def _calls(value: Json) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, arguments, call_id) for name, arguments, call_id in value)
