"""Writer of NeMo Gym pivot rows: candidates (a pool, say) as rows that train elsewhere.

A candidate that came from such a row is written as that row, nothing lost. Others are built from state and action; ids
of calls are made up where none were kept, and the domain and what else verdicts stand on are written beside them.
`agent_ref` is always written, and what profiling found is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotrl_core.trajectories.marks import HARNESS
from pivotrl_core.trajectories.nemo_gym import NEMO_ROW, PARAMS
from pivotrl_core.types import Candidate, Json, Message, Role, Tool, ToolCall

AGENTS: Mapping[str, str] = {
    "terminal": "terminus_judge_simple_agent",
    "software": "swe_pivot_tool_simulation_agent",
}
GROUNDS = ("answers", "index", "tests", "workspace")
"""Of a candidate's metadata: what our verifiers ask of a row beside state and action."""
DEFAULT_AGENT = "single_step_tool_use_with_argument_comparison_agent"


@dataclass(frozen=True, slots=True)
class PassRate:
    """What profiling found at a candidate: `passed` of `total` samples succeeded."""

    passed: int
    total: int


def candidate_to_nemo_row(candidate: Candidate, pass_rate: PassRate | None = None) -> dict[str, Json]:
    """One row.

    Args:
        candidate: state, tools and expert action.
        pass_rate: adds `pass_rate`, `pass_rate_total` and `pass_rate_passed`.
    """
    original = candidate.metadata.get(NEMO_ROW)
    row = dict(original) if isinstance(original, Mapping) else _build_row(candidate)
    name = AGENTS.get(candidate.domain, DEFAULT_AGENT)
    row.setdefault("agent_ref", {"type": "responses_api_agents", "name": name})
    if pass_rate is not None:
        row["pass_rate"] = pass_rate.passed / pass_rate.total
        row["pass_rate_total"] = pass_rate.total
        row["pass_rate_passed"] = pass_rate.passed
    return row


def _build_row(candidate: Candidate) -> dict[str, Json]:
    params: dict[str, Json] = {
        "input": _items(candidate.state),
        "tools": [_tool(tool) for tool in candidate.tools],
        "parallel_tool_calls": len(candidate.expert.tool_calls) > 1,
        "tool_choice": "auto",
    }
    return {
        PARAMS: params,
        **_target(candidate),
        **{name: candidate.metadata[name] for name in GROUNDS if candidate.metadata.get(name) is not None},
        "domain": candidate.domain,
        "trajectory_id": candidate.trajectory_id,
        "pivot_agent_turn_index": candidate.turn_index,
    }


def _target(candidate: Candidate) -> dict[str, Json]:
    """The expert's action, in the field where the agent of its domain looks for it."""
    harness = candidate.metadata.get(HARNESS)
    if candidate.domain == "terminal" and harness and not candidate.expert.tool_calls:
        return {"expected_answer": candidate.expert.content, "metadata": {"harness": harness}}
    return {"expected_action": _action(candidate.expert)}


def _items(messages: Sequence[Message]) -> list[Json]:
    items: list[Json] = []
    pending: list[str] = []
    made = 0
    for message in messages:
        if message.role is Role.TOOL:
            call_id = message.tool_call_id or (pending[0] if pending else f"call_{made}")
            if call_id in pending:
                pending.remove(call_id)
            items.append({"type": "function_call_output", "call_id": call_id, "output": message.content})
            continue
        if message.content or not message.tool_calls:
            items.append({"type": "message", "role": str(message.role), "content": message.content})
        for call in message.tool_calls:
            call_id = call.call_id or f"call_{made}"
            made += 1
            pending.append(call_id)
            items.append({**_call(call), "call_id": call_id, "status": "completed"})
    return items


def _call(call: ToolCall) -> dict[str, Json]:
    return {"type": "function_call", "name": call.name, "arguments": call.arguments}


def _action(expert: Message) -> dict[str, Json]:
    if not expert.tool_calls:
        return {"type": "message", "content": expert.content}
    if len(expert.tool_calls) == 1:
        return _call(expert.tool_calls[0])
    return {"type": "function_call_batch", "calls": [_call(call) for call in expert.tool_calls]}


def _tool(tool: Tool) -> dict[str, Json]:
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    return {
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": parameters, "strict": False,
    }  # fmt: skip
