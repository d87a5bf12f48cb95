"""The scripted expert: it knows the scenario, but plays in the real environment, and does things in many right ways.

What varies by seed, without changing the outcome: the key an order is found by, the order of arguments, defaults given
or left out, spellings of days and order numbers, whether details are asked before or after the look-up, and wording.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from pivotrl_core.environments.helpdesk import speech
from pivotrl_core.environments.helpdesk.arguments import TOOLS_BY_NAME
from pivotrl_core.environments.helpdesk.environment import HelpdeskEnvironment
from pivotrl_core.environments.helpdesk.scenario import Detail, Scenario, Topic, UserRequest, Write, scenario_from_json
from pivotrl_core.environments.helpdesk.spellings import day_text
from pivotrl_core.environments.protocol import Task
from pivotrl_core.environments.recording import Recorder
from pivotrl_core.errors import PivotRLError
from pivotrl_core.seeding import derive_seed
from pivotrl_core.types import Json, Trajectory

_DEFAULT_GIVEN = 0.5
_DAY_AS_SAID = 0.25
_LOWER_CASE_ID = 0.08
_ASK_FIRST = 0.3


def play_expert(task: Task, seed: int) -> Trajectory:
    """A successful episode of `task`. Raises PivotRLError where the expert failed: a defect of ours."""
    rng = random.Random(derive_seed("helpdesk-expert", task.id, seed))
    scenario = scenario_from_json(task.content)
    recorder = Recorder(HelpdeskEnvironment(), task)
    for place, request in enumerate(scenario.requests):
        _serve(recorder, scenario, request, place == 0, rng)
    score = recorder.environment.score()
    if score.success != 1.0:
        raise PivotRLError(f"the help desk expert failed task {task.id} ({task.family}): {dict(score.components)}")
    trajectory = recorder.trajectory()
    return replace(trajectory, metadata={**trajectory.metadata, "expert_seed": seed})


def _serve(recorder: Recorder, scenario: Scenario, request: UserRequest, first: bool, rng: random.Random) -> None:
    pending = list(request.details)
    if first:
        _find_order(recorder, request, pending, rng)
    if request.refused:
        recorder.say(rng.choice(speech.REFUSALS[request.kind]).format(order=request.order_id))
        return
    while pending:
        _ask(recorder, scenario, request, pending.pop(0), rng)
    for write in request.writes:
        recorder.call(write.name, _vary(write, rng))
    answer = _answer(request, rng)
    text = rng.choice(speech.CONFIRMATIONS[request.kind]).format(order=request.order_id, answer=answer)
    recorder.say(text + rng.choice(speech.MORE))


def _find_order(recorder: Recorder, request: UserRequest, pending: list[Detail], rng: random.Random) -> None:
    keys, question = request.keys, rng.choice(speech.QUESTIONS[Topic.ORDER])
    while True:
        if not keys:
            keys = pending.pop(0).keys
            recorder.say(question)
        if len(pending) == 1 and pending[0].topic not in (Topic.ORDER, Topic.WHICH) and _asks_first(request, rng):
            recorder.say(rng.choice(speech.QUESTIONS[pending.pop(0).topic]))
        if "error" not in recorder.call("find_order", _spell(dict(rng.choice(keys)), rng)):
            return
        keys, question = (), rng.choice(speech.NOT_FOUND)


def _asks_first(request: UserRequest, rng: random.Random) -> bool:
    return not request.refused and rng.random() < _ASK_FIRST


def _ask(recorder: Recorder, scenario: Scenario, request: UserRequest, detail: Detail, rng: random.Random) -> None:
    orders = scenario.database.orders
    email = next(order.email for order in orders if order.id == request.order_id)
    both = " and ".join(order.id for order in orders if order.email == email)
    recorder.say(rng.choice(speech.QUESTIONS[detail.topic]).format(both))


def _answer(request: UserRequest, rng: random.Random) -> str:
    return rng.choice(request.answers[:2]) if request.answers else ""


def _vary(write: Write, rng: random.Random) -> dict[str, Json]:
    schemas: Mapping[str, Json] = TOOLS_BY_NAME[write.name].parameters["properties"]
    given = {
        name: value
        for name, value in sorted(write.arguments.items())
        if schemas[name].get("default") != value or rng.random() < _DEFAULT_GIVEN
    }
    if "date" in given and rng.random() < _DAY_AS_SAID:
        given["date"] = day_text(given["date"])
    return _spell(given, rng)


def _spell(arguments: dict[str, Json], rng: random.Random) -> dict[str, Json]:
    names = sorted(arguments)
    rng.shuffle(names)
    spelled = {name: arguments[name] for name in names}
    if "order_id" in spelled and rng.random() < _LOWER_CASE_ID:
        spelled["order_id"] = spelled["order_id"].lower()
    return spelled
