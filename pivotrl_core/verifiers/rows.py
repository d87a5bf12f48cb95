"""Verdicts on rows that carry their answer: NeMo Gym's pivot rows with a `response`, one at a time.

A row may say with `verifier` which settings are meant, under NeMo Gym's own names. In the default mode those that have
a meaning there are taken over: the threshold of texts, and how parallel calls are rewarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pivotrl_core.errors import DataError, SandboxUnavailableError
from pivotrl_core.trajectories.domains import row_domain
from pivotrl_core.trajectories.fields import InvalidRowError, read_tools
from pivotrl_core.trajectories.nemo_gym import INPUT, NEMO_ROW, PARAMS, read_expert
from pivotrl_core.trajectories.response_items import read_items
from pivotrl_core.types import Action, Candidate, Json, Message, canonical_json
from pivotrl_core.verifiers.nemo_gym.grader import verify_nemo_gym
from pivotrl_core.verifiers.nemo_gym.rules import ParallelRule
from pivotrl_core.verifiers.nemo_gym.settings import NemoGymSettings, ToolCallSettings, read_settings
from pivotrl_core.verifiers.registry import GRADERS, FunctionalVerifier, GraderSettings
from pivotrl_core.verifiers.responses import Response, read_response
from pivotrl_core.verifiers.rewards import RewardRule
from pivotrl_core.verifiers.settings import FunctionalSettings, SoftwareSettings, VerdictReason
from pivotrl_core.verifiers.tool_call import DomainRules
from pivotrl_core.verifiers.verdict_cache import VerdictCache

DOMAINS: Mapping[str, str] = {
    "tool": "tool", "terminal": "terminal", "swe": "software", "search": "search", "code": "code",
}  # fmt: skip
"""Domains by the names that the command line has for them."""
_CALLS_IN_TEXT = ("tool", "software", "search")
"""Domains in whose plain texts calls are looked for."""
_TEXT_THRESHOLD = "word_count_similarity_threshold"
_SEARCH_THRESHOLD = 0.3
"""Of texts, in NeMo Gym's configuration of search pivots."""


def read_row(row: Mapping[str, Json], domain: str) -> tuple[Candidate, Action]:
    """The candidate of a row, and the action that its `response` is.

    Raises:
        DataError: the row has none that can be read.
    """
    try:
        return _candidate(row, domain), read_response(row.get("response")).action(domain in _CALLS_IN_TEXT)
    except ValueError as error:
        raise DataError(str(error)) from error


def verify_row(
    row: Json,
    domain: str = "",
    compat: bool = False,
    workspaces: Path | None = None,
    rules: DomainRules | None = None,
    cache: VerdictCache | None = None,
) -> dict[str, Json]:
    """The verdict on a row as the fields of an output line: reward, components and reason, category or failure.

    Args:
        row: the decoded row.
        domain: one of `DOMAINS`' values; empty: by what the row carries.
        compat: as NeMo Gym's own server says.
        workspaces: the folder that workspaces of terminal rows lie in, so that commands can be executed.
        rules: of an embedded domain that tool rows are from.
        cache: of what is executed, so that the expert's side is executed once for all rows of a state.

    Raises:
        DataError: the row cannot be judged; the message says why.
    """
    if not isinstance(row, Mapping):
        raise DataError("the line holds no JSON object")
    if row.get("response") is None:
        raise DataError("response: missing, so there is nothing to judge")
    domain = domain or row_domain(row)
    try:
        response = read_response(row["response"])
        settings = _settings(row, domain)
        if compat:
            return _verify_compat(row, response, domain, settings)
        return _verify_default(row, response, domain, settings, _Ground(workspaces, rules, cache))
    except (ValueError, SandboxUnavailableError) as error:
        raise DataError(str(error)) from error


def _settings(row: Mapping[str, Json], domain: str) -> NemoGymSettings:
    values = row.get("verifier") or {}
    if not isinstance(values, Mapping):
        raise ValueError("verifier: expected an object of settings")
    search = ToolCallSettings(word_count_similarity_threshold=_SEARCH_THRESHOLD)
    return read_settings(values, NemoGymSettings(tool=search) if domain == "search" else None)


def _verify_compat(
    row: Mapping[str, Json], response: Response, domain: str, settings: NemoGymSettings
) -> dict[str, Json]:
    if domain == "code":
        raise ValueError("NeMo Gym has no pivot server for code; leave --compat out")
    outcome = verify_nemo_gym(row, response, domain, settings)
    key = "failure_reason" if domain in ("terminal", "software") else "category"
    return {"reward": outcome.reward, "components": dict(outcome.details), key: str(outcome.name)}


def _verify_default(
    row: Mapping[str, Json], response: Response, domain: str, settings: NemoGymSettings, ground: _Ground
) -> dict[str, Json]:
    if domain not in GRADERS:
        raise ValueError(f"no verifier for {domain} rows; --compat nemo-gym has one for terminal, software and search")
    verifier = _verifier(settings, _TEXT_THRESHOLD in canonical_json(row.get("verifier")), ground)
    verdict = verifier.verify(_candidate(row, domain), response.action(domain in _CALLS_IN_TEXT))
    reason = VerdictReason.ACCEPTED.value if verdict.reward == 1.0 else verdict.reason
    return {"reward": verdict.reward, "components": dict(verdict.components), "reason": reason}


@dataclass(frozen=True)
class _Ground:
    """What verdicts of rows stand on beside the rows: the arguments of `verify_row` of these names."""

    workspaces: Path | None
    rules: DomainRules | None
    cache: VerdictCache | None


@lru_cache(maxsize=16)
def _verifier(settings: NemoGymSettings, own_threshold: bool, ground: _Ground) -> FunctionalVerifier:
    """The verifier of settings; without a threshold of the row's own, texts are compared at ours."""
    tool = FunctionalSettings()
    if own_threshold:
        tool = FunctionalSettings(text_threshold=settings.tool.word_count_similarity_threshold)
    rule = ParallelRule(tool.text_threshold, settings.tool) if settings.tool.parallel_tool_call_rewarding else None
    compared = settings.software.enable_target_match or settings.software.enable_argument_similarity
    software = SoftwareSettings(name_only=not compared)
    graders = GraderSettings(tool, ground.rules, software=software, workspaces=ground.workspaces, cache=ground.cache)
    return FunctionalVerifier(graders, rule or RewardRule())


def _candidate(row: Mapping[str, Json], domain: str) -> Candidate:
    params = row.get(PARAMS)
    params = params if isinstance(params, Mapping) else {}
    tools = read_tools(params.get("tools"), f"{PARAMS}.tools")
    return Candidate(
        _state(params),
        tools,
        read_expert(row),
        trajectory_id="",
        turn_index=0,
        domain=domain,
        metadata={NEMO_ROW: dict(row)},
    )


def _state(params: Mapping[str, Json]) -> tuple[Message, ...]:
    """The state as far as it can be read: what is compared with it is the action, and few rules look at it."""
    items = params.get("input")
    try:
        return read_items(items, INPUT) if isinstance(items, list) else ()
    except InvalidRowError:
        return ()
