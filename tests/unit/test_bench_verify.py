"""What verdicts cost: the workload is fixed and has right and wrong actions, and the account adds up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.bench.verdict_cases import WORKLOADS, cases_in, cases_of
from pivotrl_core.bench.verdict_executions import executions
from pivotrl_core.bench.verdicts import Clock, VerdictCost, processor_seconds, verdict_costs
from pivotrl_core.errors import DataError
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.registry import GRADERS, get_verifier

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
ROW: dict[str, Any] = {
    "responses_create_params": {"input": [{"role": "user", "content": "Hi."}], "tools": [], "metadata": {}},
    "expected_action": {"type": "function_call", "name": "f", "arguments": '{"x": 1}'},
}


def test_latencies_and_rates_follow_from_what_the_clock_saw() -> None:
    clock = Clock([second / 1000 for second in range(100, 0, -1)], processor=4.0)
    cost = clock.cost("some", {"cases": "few"})
    assert (cost.p50_us, cost.p95_us) == pytest.approx((51_000, 96_000))  # of 1 to 100 ms
    assert cost.per_second_per_core == 25.0
    assert json.loads(cost.line()) == {
        "bench": "verify", "verifier": "some", "setting": {"cases": "few", "verdicts": 100}, "p50_us": 51_000.0,
        "p95_us": 96_000.0, "per_second_per_core": 25.0,
    }  # fmt: skip
    assert "25 verdicts a second and core" in cost.text()
    skipped = VerdictCost("some", {}, skipped="no sandbox")
    assert "p50_us" not in json.loads(skipped.line())


@pytest.mark.parametrize("domain", [domain for domain in WORKLOADS if domain in GRADERS])
def test_the_workload_is_fixed_and_its_actions_are_right_and_wrong(domain: str) -> None:
    cases = cases_of(domain)
    assert cases == cases_of(domain)
    assert {len(case.actions) for case in cases} == {8}
    assert {case.candidate.domain for case in cases} == {domain}
    verifier = get_verifier("functional")
    rewards = [[verifier.verify(case.candidate, action).reward for action in case.actions] for case in cases]
    assert {own[0] for own in rewards} == {1.0}
    assert all(min(own) == 0.0 for own in rewards)


def test_rows_of_ones_own_are_measured_by_domain(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    terminal = {"metadata": {"harness": "terminus_2"}, "expected_answer": '{"commands": []}'}
    fix = ROW["expected_action"] | {"name": "fix"}
    rows = [
        ROW,
        {**ROW, "expected_action": fix, "pivot_tags": ["P1"]},
        {"responses_create_params": ROW["responses_create_params"], **terminal},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert {domain: len(cases) for domain, cases in cases_in([file]).items()} == {
        "tool": 1, "software": 1, "terminal": 1,
    }  # fmt: skip
    file.write_text("{}\n")
    with pytest.raises(DataError, match="no turns here"):
        cases_in([file])


@needs_sandbox
def test_executions_are_real_the_first_time_and_found_the_second(tmp_path: Path) -> None:
    for one in executions(tmp_path):
        verifier = one.verifier()
        for turn in (1, 2):
            for case in one.cases(turn):
                begun = processor_seconds()
                verdict = verifier.verify(case.candidate, case.actions[0])
                spent = processor_seconds() - begun
                assert (verdict.reward, verdict.components["executed"]) == (1.0, True)
                before = processor_seconds()
                assert verifier.verify(case.candidate, case.actions[0]) == verdict
                assert processor_seconds() - before < spent / 3


def test_every_verifier_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    heard: list[str] = []
    costs = list(verdict_costs([tmp_path / "rows.jsonl"], 0.0, tmp_path, heard.append))
    told = {(cost.verifier, cost.setting["cases"]) for cost in costs}
    assert {("tool", "embedded"), ("tool", "rows"), ("terminal", "embedded"), ("exact", "embedded")} <= told
    assert {name for name, _ in told} >= {"nemo-gym", "terminal-executed", "code-executed"}
    measured = [cost for cost in costs if not cost.skipped]
    assert all(0 < cost.p50_us <= cost.p95_us and cost.per_second_per_core > 0 for cost in measured)
    assert len(heard) >= len(GRADERS)
