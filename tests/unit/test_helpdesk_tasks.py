"""Tasks of the help desk: deterministic, balanced, apart; and the expert that solves all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from pivotrl_core.environments.helpdesk.environment import expected_database
from pivotrl_core.environments.helpdesk.expert import play_expert
from pivotrl_core.environments.helpdesk.families import FAMILIES, families_of
from pivotrl_core.environments.helpdesk.policy import POLICY
from pivotrl_core.environments.helpdesk.scenario import scenario_from_json, scenario_to_json
from pivotrl_core.environments.helpdesk.spellings import canonical_date, date_spellings, mentions
from pivotrl_core.environments.protocol import Pool, Task
from pivotrl_core.environments.recording import iter_trajectories, to_openai_row
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import read_jsonl, write_jsonl
from pivotrl_core.types import Role, Split, content_id

DOMAIN = get_domain("helpdesk")
TASKS_A_FAMILY = 200


@cache
def tasks_by_family() -> dict[str, list[Task]]:
    tasks = DOMAIN.tasks(Split.TEST, TASKS_A_FAMILY * len(FAMILIES), 7)
    return {family.name: [task for task in tasks if task.family == family.name] for family in FAMILIES}


def all_splits(count: int, seed: int) -> dict[tuple[Pool, Split], tuple[Task, ...]]:
    return {(pool, split): tuple(DOMAIN.tasks(split, count, seed, pool)) for pool in Pool for split in Split}


def test_there_are_ten_families_and_more_and_three_only_in_test():
    assert len(FAMILIES) >= 10
    assert {family.name for family in FAMILIES if family.test_only} == {
        "return_by_phone",
        "address_refused",
        "ask_then_cancel",
    }
    for split in (Split.TRAIN, Split.VALIDATION):
        seen = {task.family for task in DOMAIN.tasks(split, 60, 0)}
        assert seen == {family.name for family in families_of(split)}
    assert {task.family for task in DOMAIN.tasks(Split.TEST, 60, 0)} == {family.name for family in FAMILIES}


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_expert_solves_every_task_of_the_family(family: str):
    mine = tasks_by_family()[family]
    assert len(mine) == TASKS_A_FAMILY
    for number, task in enumerate(mine):
        trajectory = play_expert(task, number)  # raises where the score is not 1
        assert trajectory.messages[-1].role is Role.ASSISTANT
        assert not trajectory.messages[-1].tool_calls
        assert trajectory.group == task.id


def test_a_longer_list_of_tasks_only_appends():
    assert DOMAIN.tasks(Split.TRAIN, 20, 3) == DOMAIN.tasks(Split.TRAIN, 50, 3)[:20]


def test_families_are_balanced_in_every_prefix():
    tasks = DOMAIN.tasks(Split.TEST, 100, 1)
    for length in range(1, 101):
        counts = Counter(task.family for task in tasks[:length])
        everything = [counts[family.name] for family in FAMILIES]
        assert max(everything) - min(everything) <= 1


def test_splits_and_pools_share_neither_tasks_nor_databases_under_any_seed():
    ids: list[str] = []
    seeds: dict[int, tuple[Pool, Split]] = {}
    databases: list[str] = []
    for seed in (0, 1, 2):
        for place, tasks in all_splits(60, seed).items():
            ids += [task.id for task in tasks]
            databases += [content_id(task.content["database"]) for task in tasks]
            for task in tasks:
                assert seeds.setdefault(task.content["database_seed"], place) == place
                assert task.split is place[1]
    assert len(set(ids)) == len(ids)
    assert len(set(databases)) == len(databases)


def test_thousands_of_tasks_are_distinct():
    assert len({task.id for task in DOMAIN.tasks(Split.TRAIN, 3000, 0)}) == 3000


def test_tasks_are_the_same_in_another_process():
    code = (
        "from pivotrl_core.environments.registry import get_domain; from pivotrl_core.types import Split; import sys;"
        "d = get_domain('helpdesk'); t = d.tasks(Split.TEST, 17, 5);"
        "print(*[x.id for x in t], *[d.expert_trajectory(x, 1).id for x in t]);"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tasks = DOMAIN.tasks(Split.TEST, 17, 5)
    here = [task.id for task in tasks] + [DOMAIN.expert_trajectory(task, 1).id for task in tasks]
    assert done.stdout.split() == here


def test_task_content_is_json_and_survives_it():
    for task in DOMAIN.tasks(Split.TEST, 34, 2):
        again = json.loads(json.dumps(task.content))
        assert again == task.content
        assert scenario_to_json(scenario_from_json(again)) == task.content


def test_a_file_that_sorts_keys_changes_no_episode():
    for task in DOMAIN.tasks(Split.TEST, 34, 2):
        again = replace(task, content=json.loads(json.dumps(task.content, sort_keys=True)))
        assert play_expert(again, 5) == play_expert(task, 5)


def test_refusals_and_questions_expect_an_unchanged_database_and_others_a_changed_one():
    for task in DOMAIN.tasks(Split.TEST, 170, 2):
        scenario = scenario_from_json(task.content)
        unchanged = expected_database(scenario) == scenario.database
        writes = any(request.writes for request in scenario.requests)
        assert unchanged != writes
        assert not (task.family.endswith("_refused") and writes)


def test_the_expert_does_one_task_in_many_ways():
    task = next(task for task in DOMAIN.tasks(Split.TRAIN, 60, 0) if task.family == "delivery")
    ways = {DOMAIN.expert_trajectory(task, seed).id for seed in range(50)}
    assert len(ways) > 25
    assert DOMAIN.expert_trajectory(task, 3) == DOMAIN.expert_trajectory(task, 3)


def test_messages_are_short_enough_for_a_small_model_on_a_cpu():
    assert len(POLICY) < 400
    trajectories = list(iter_trajectories(DOMAIN, Split.TRAIN, 140, 0))
    turns = [sum(message.role is Role.ASSISTANT for message in t.messages) for t in trajectories]
    assert 3.5 < sum(turns) / len(turns) < 4.5
    assert max(turns) < 10
    assert max(len(message.content) for t in trajectories for message in t.messages[1:]) < 160


def test_openai_rows_hold_the_whole_trajectory(tmp_path):
    trajectories = list(iter_trajectories(DOMAIN, Split.TRAIN, 14, 0))
    assert write_jsonl(tmp_path / "rows.jsonl", map(to_openai_row, trajectories)) == 14
    rows = read_jsonl(tmp_path / "rows.jsonl")
    assert rows == [json.loads(json.dumps(to_openai_row(trajectory))) for trajectory in trajectories]
    for row, trajectory in zip(rows, trajectories, strict=True):
        assert [message["role"] for message in row["messages"]] == [str(m.role) for m in trajectory.messages]
        assert (row["id"], row["task_id"], row["domain"]) == (trajectory.id, trajectory.group, "tool")
        answered = [message["tool_call_id"] for message in row["messages"] if message["role"] == "tool"]
        called = [call["id"] for message in row["messages"] for call in message.get("tool_calls", [])]
        assert answered == called
        assert {tool["function"]["name"] for tool in row["tools"]} == {tool.name for tool in trajectory.tools}


def test_an_unknown_domain_is_a_configuration_error():
    with pytest.raises(ConfigError, match="helpdesk"):
        get_domain("shop")


@pytest.mark.parametrize(
    "text", ["2026-05-12", "12 May", "May 12", "12th of May", "12 may 2026", " 12  MAY ", "May 12th, 2026"]
)
def test_spellings_of_a_day_are_one_day(text: str):
    assert canonical_date(text) == "2026-05-12"


@pytest.mark.parametrize("text", ["", "31 June", "12", "May", "12 Mayday", "2026-13-01", "tomorrow", "0000-01-01"])
def test_what_is_no_day_is_none(text: str):
    assert canonical_date(text) is None


def test_an_answer_counts_only_as_whole_words():
    assert mentions("It comes on 12 May.", "12 May")
    assert not mentions("It comes on 112 May.", "12 May")
    assert not mentions("The total is 340.", "34")
    assert all(canonical_date(spelling) == "2026-05-12" for spelling in date_spellings("2026-05-12"))
