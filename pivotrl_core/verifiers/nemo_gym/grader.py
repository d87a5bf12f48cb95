"""NeMo Gym's verdicts as a grader of this project's, so that a pool profiled here is the one that is profiled there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from pivotrl_core.types import Action, Candidate, Json, Message, content_id
from pivotrl_core.verifiers.nemo_gym.outcome import Outcome
from pivotrl_core.verifiers.nemo_gym.settings import NemoGymSettings
from pivotrl_core.verifiers.nemo_gym.software import verify_software
from pivotrl_core.verifiers.nemo_gym.terminal import verify_terminal
from pivotrl_core.verifiers.nemo_gym.tool_calls import verify_tool_call
from pivotrl_core.verifiers.protocol import GradingDecision, printable
from pivotrl_core.verifiers.responses import Response
from pivotrl_core.verifiers.row_fields import ROW

UNREADABLE = "row_invalid"


def verify_nemo_gym(row: Mapping[str, Json], response: Response, domain: str, settings: NemoGymSettings) -> Outcome:
    """The verdict of the server that a domain belongs to.

    Raises:
        ValueError: the row is not one that the server accepts.
    """
    if not isinstance(row.get("metadata") or {}, Mapping):
        raise ValueError("metadata: expected an object")
    if domain == "terminal":
        threshold = row.get("threshold")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            raise ValueError("threshold: expected a number")
        return verify_terminal(row, response, settings.terminal)
    if domain == "software":
        return verify_software(row, response, settings.software)
    return verify_tool_call(row, response, settings.tool)


class NemoGymGrader:
    """Components: the reward, the name of the category or failure, and what led to it.

    A malformed action is the text that it was written as: a server whose parser finds no call in it sees a message.
    """

    name = "nemo-gym"

    def __init__(self, settings: NemoGymSettings | None = None) -> None:
        self.settings = settings or NemoGymSettings()
        self.version = f"1-{content_id(asdict(self.settings))}"

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        try:
            outcome = verify_nemo_gym(_row(candidate), _response(action), candidate.domain, self.settings)
        except ValueError as error:
            return {"reward": 0.0, "category": UNREADABLE, "error": printable(str(error))}
        return {"reward": outcome.reward, "category": str(outcome.name), **outcome.details}

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        reward = float(components["reward"])
        return GradingDecision(reward == 1.0, str(components["category"]), reward)


def _row(candidate: Candidate) -> Mapping[str, Json]:
    """The row that a candidate came from, or as much of one as a server compares with."""
    row = candidate.metadata.get(ROW)
    if isinstance(row, Mapping):
        return row
    if candidate.domain == "terminal":
        harness = {"harness": candidate.metadata.get("harness")}
        return {"expected_answer": candidate.expert.content, "metadata": harness}
    return {"expected_action": _expected_action(candidate.expert)}


def _expected_action(expert: Message) -> dict[str, Json]:
    calls = [{"type": "function_call", "name": one.name, "arguments": one.arguments} for one in expert.tool_calls]
    if not calls:
        return {"type": "message", "content": expert.content}
    return calls[0] if len(calls) == 1 else {"type": "function_call_batch", "calls": calls}


def _response(action: Action) -> Response:
    if action.error:
        return Response(texts=(action.text,))
    only_thinking = action.thinking and not action.content
    return Response(action.tool_calls, () if action.tool_calls or only_thinking else (action.content,))
