"""One episode at the help desk: the policy and the user's opening, then turns of the agent's until the user is served.

A turn is one assistant completion: tool calls (run in order) or a message to the user. Text beside tool calls is kept
by the recorder but not heard by the user. No action raises: a malformed one comes back as a tool message with an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from pivotrl_core.environments.helpdesk.catalogue import TOOLS
from pivotrl_core.environments.helpdesk.database import PRICES, Database, database_from_json, database_to_json
from pivotrl_core.environments.helpdesk.equivalence import guesses
from pivotrl_core.environments.helpdesk.policy import POLICY
from pivotrl_core.environments.helpdesk.scenario import Scenario, Write, scenario_from_json
from pivotrl_core.environments.helpdesk.spellings import canonical_date, find_days, mentions
from pivotrl_core.environments.helpdesk.tools import run_call
from pivotrl_core.environments.helpdesk.user import Ending, UserState, refuses, respond
from pivotrl_core.environments.protocol import Observation, Score, Task
from pivotrl_core.errors import DataError, PivotRLError
from pivotrl_core.types import Action, Json, Message, Role, Split, Tool, ToolCall

MAX_TURNS = 10
MAX_CALLS = 8
SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Episode:
    task: Task
    scenario: Scenario
    database: Database
    seen: frozenset[str] = frozenset()
    user: UserState = field(default_factory=UserState)
    said: tuple[str, ...] = ()
    turns: int = 0
    tool_errors: int = 0


class HelpdeskEnvironment:
    """One episode at a time. `max_turns` is the limit of agent turns."""

    def __init__(self, max_turns: int = MAX_TURNS) -> None:
        self.tools: tuple[Tool, ...] = TOOLS
        self.max_turns = max_turns
        self._state: _Episode | None = None

    @property
    def _episode(self) -> _Episode:
        if self._state is None:
            raise PivotRLError("no episode has started: call reset or restore first")
        return self._state

    def reset(self, task: Task) -> Observation:
        """Start an episode: the policy as system message, and the user's opening."""
        scenario = scenario_from_json(task.content)
        self._state = _Episode(task, scenario, scenario.database)
        opening = Message(Role.USER, scenario.requests[0].opening)
        return Observation((Message(Role.SYSTEM, POLICY), opening))

    def step(self, action: Action) -> Observation:
        """Apply one turn of the agent's. After the end nothing happens any more."""
        if self._episode.user.ending:
            return Observation((), done=True)
        if action.error:
            messages = self._refuse_malformed(action.error)
        elif action.tool_calls:
            messages = self._run(action.tool_calls)
        else:
            messages = self._talk(action.content)
        episode = replace(self._episode, turns=self._episode.turns + 1)
        if episode.turns >= self.max_turns and not episode.user.ending:
            episode = replace(episode, user=replace(episode.user, ending=Ending.TURN_LIMIT))
        self._state = episode
        return Observation(messages, done=bool(episode.user.ending))

    def _refuse_malformed(self, error: str) -> tuple[Message, ...]:
        self._state = replace(self._episode, tool_errors=self._episode.tool_errors + 1)
        return (Message(Role.TOOL, json.dumps({"error": f"malformed call: {error[:60]}"})),)

    def _run(self, calls: tuple[ToolCall, ...]) -> tuple[Message, ...]:
        messages = []
        for place, call in enumerate(calls):
            episode = self._episode
            if place >= MAX_CALLS:
                text, failed = json.dumps({"error": "too many calls at once"}), True
            else:
                outcome = run_call(episode.database, episode.seen, call)
                text, failed = outcome.text, outcome.failed
                episode = replace(episode, database=outcome.database, seen=outcome.seen)
            self._state = replace(episode, tool_errors=episode.tool_errors + failed)
            messages.append(Message(Role.TOOL, text, tool_call_id=call.call_id))
        return tuple(messages)

    def _talk(self, text: str) -> tuple[Message, ...]:
        episode = self._episode
        user, reply = respond(episode.scenario, episode.user, text)
        self._state = replace(episode, user=user, said=(*episode.said, text))
        return (Message(Role.USER, reply),) if reply else ()

    def score(self) -> Score:
        """Success is 1 where every part holds: final database, answers, refusal, reads, and an end by a message."""
        episode = self._episode
        parts = {
            "database": episode.database == expected_database(episode.scenario),
            "answers": _answers_given(episode),
            "refusal": _refusal_told(episode.scenario, episode.said),
            "read": episode.scenario.reads <= episode.seen,
            "closed": episode.user.ending is Ending.CLOSED,
        }
        extra = {"ending": str(episode.user.ending), "turns": episode.turns, "tool_errors": episode.tool_errors}
        return Score(float(all(parts.values())), {**parts, **extra, "family": episode.task.family})

    def snapshot(self) -> bytes:
        """The whole episode as JSON."""
        episode = self._episode
        value = {
            "schema_version": SNAPSHOT_VERSION,
            "task": asdict(episode.task),
            "database": database_to_json(episode.database),
            "seen": sorted(episode.seen),
            "user": asdict(episode.user),
            "said": list(episode.said),
            "turns": episode.turns,
            "tool_errors": episode.tool_errors,
            "max_turns": self.max_turns,
        }
        return json.dumps(value, sort_keys=True).encode("ascii")

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot. Raises DataError where the bytes are not one of this version."""
        try:
            value = json.loads(snapshot)
            if value["schema_version"] != SNAPSHOT_VERSION:
                raise DataError(f"a help desk snapshot has version {value['schema_version']}; make it anew")
            self._state = _episode_from_json(value)
            self.max_turns = value["max_turns"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"not a help desk snapshot ({error!r}); make one with snapshot()") from error


def _episode_from_json(value: Mapping[str, Json]) -> _Episode:
    task = Task(**{**value["task"], "split": Split(value["task"]["split"])})
    user = value["user"]
    return _Episode(
        task=task,
        scenario=scenario_from_json(task.content),
        database=database_from_json(value["database"]),
        seen=frozenset(value["seen"]),
        user=UserState(user["request"], tuple(user["told"]), user["idle"], Ending(user["ending"])),
        said=tuple(value["said"]),
        turns=value["turns"],
        tool_errors=value["tool_errors"],
    )


def expected_database(scenario: Scenario) -> Database:
    """The database after the scenario's writes, made by the tools themselves."""
    database = scenario.database
    seen = frozenset(order.id for order in database.orders)
    for request in scenario.requests:
        for write in request.writes:
            database = _apply(database, seen, write)
    return database


def _apply(database: Database, seen: frozenset[str], write: Write) -> Database:
    outcome = run_call(database, seen, ToolCall(write.name, json.dumps(dict(write.arguments))))
    if outcome.failed:
        raise DataError(f"a task expects {write.name} {dict(write.arguments)}, which the tools refuse: {outcome.text}")
    return outcome.database


def _answers_given(episode: _Episode) -> bool:
    """Whether each answer was given, and not among others of which the scenario knows nothing."""
    needed = [request.answers for request in episode.scenario.requests if request.answers]
    orders = episode.database.orders
    lines = [(PRICES[item], PRICES[item] * quantity) for order in orders for item, quantity in order.items.items()]
    totals = [order.total for order in orders]
    shown = json.dumps([POLICY, lines, totals, database_to_json(episode.database), episode.task.content])
    return all(
        any(_states(text, answer) and not guesses(text, answers, shown) for text in episode.said for answer in answers)
        for answers in needed
    )


def _states(text: str, answer: str) -> bool:
    day = canonical_date(answer)
    return mentions(text, answer) or (day is not None and day in find_days(text)[0])


def _refusal_told(scenario: Scenario, said: tuple[str, ...]) -> bool:
    if not any(request.refused for request in scenario.requests):
        return True
    return bool(said) and refuses(said[-1])
