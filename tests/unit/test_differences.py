"""What differs between two records is said by name; wall clock never counts."""

from __future__ import annotations

from tasks.differences import compare_locks, compare_reports
from tasks.dvc_lock import LockedStage, parse_lock, results_digest

LOCK = """
schema: '2.0'
stages:
  train@a-0:
    cmd: pivotrl stage train --key a-0
    deps:
    - path: data/pools/a
      hash: md5
      md5: aaaa.dir
    params:
      params.yaml:
        arms.a: {lambda: 1.0e-05}
    outs:
    - path: models/a/0
      md5: bbbb.dir
    - path: reports/timings/train-a-0.json
      md5: cccc
"""


def test_a_lock_file_is_read_without_dvc() -> None:
    stage = parse_lock(LOCK)["train@a-0"]
    assert stage.deps == {"data/pools/a": "aaaa.dir"}
    assert stage.params == {"params.yaml:arms.a": {"lambda": 0.00001}}
    assert stage.outs == {"models/a/0": "bbbb.dir", "reports/timings/train-a-0.json": "cccc"}


def test_the_digest_of_a_stage_says_what_it_runs_with_and_not_what_comes_out() -> None:
    one = parse_lock(LOCK)["train@a-0"]
    assert one.digest == parse_lock(LOCK.replace("bbbb", "dddd"))["train@a-0"].digest
    assert one.digest != parse_lock(LOCK.replace("aaaa", "dddd"))["train@a-0"].digest
    assert results_digest({"t": one}, ["t"]) != results_digest(parse_lock(LOCK.replace("bbbb", "d")), ["train@a-0"])


def test_changed_outputs_inputs_parameters_and_stages_are_named() -> None:
    one = {
        "t": LockedStage("c", {"in": "1"}, {"p:x": 1}, {"out": "2", "reports/timings/t.json": "3"}),
        "gone": LockedStage("c"),
    }
    two = {"t": LockedStage("c", {"in": "9"}, {"p:x": 2}, {"out": "8", "reports/timings/t.json": "7"})}
    assert [str(difference) for difference in compare_locks(one, two)] == [
        "stage gone: recorded gone, now missing",
        "parameter p:x of t: recorded 1, now 2",
        "input in of t: recorded 1, now 9",
        "output out of t: recorded 2, now 8",
    ]


def test_changed_values_of_reports_are_named_down_to_the_value() -> None:
    one = {
        "r/report.json": {"metrics": {"a": 1.0, "b": None}, "rows": [{"x": 1}, {"x": 2}]},
        "reports/timings/t.json": {"s": 1},
    }
    two = {"r/report.json": {"metrics": {"a": 1.5, "b": None}, "rows": [{"x": 1}]}, "reports/timings/t.json": {"s": 2}}
    assert [str(difference) for difference in compare_reports(one, two)] == [
        "value r/report.json metrics.a: recorded 1.0, now 1.5",
        "value r/report.json rows.1.x: recorded 2, now missing",
    ]
    assert compare_reports(one, one) == []
