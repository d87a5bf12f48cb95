"""Comparing arms: cells, paired differences, cost, verdict and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pivotrl_core.evaluation.comparison import OOD_MEAN, compare
from pivotrl_core.evaluation.costs import cost_by_arm
from pivotrl_core.evaluation.pairing import Scores, align, match, stack
from pivotrl_core.evaluation.scorecard import Evaluation, read_evaluation
from pivotrl_core.evaluation.tables import table_markdown
from pivotrl_core.evaluation.verdict import paired_row, standing, verdict
from pivotrl_core.files import read_json, write_json
from tasks.comparison import compare_runs
from tests.report_files import write_reports

GREEDY = "eval/helpdesk/success_greedy"


def evaluation(arm: str, scores: list[float], seed: int = 0, **report) -> Evaluation:
    items = {GREEDY: {f"task-{n}": score for n, score in enumerate(scores)}}
    return Evaluation(arm, seed, {"arm": arm, "seed": seed, "metrics": {}, **report}, items)


def test_only_items_that_every_seed_has_are_used():
    scores = align({0: {"a": 1.0, "b": 0.0}, 1: {"b": 1.0, "c": 0.0}})
    assert scores is not None
    assert scores.items == ("b",)
    assert align({0: {"a": 1.0}, 1: {"b": 1.0}}) is None


def test_arms_are_put_on_their_shared_items_in_one_order():
    a = Scores((0,), ("x", "y", "z"), np.array([[1.0, 2.0, 3.0]]))
    b = Scores((1, 2), ("z", "x"), np.array([[30.0, 10.0], [31.0, 11.0]]))
    pair = match(a, b)
    assert pair is not None
    assert pair[0].values_SN.tolist() == [[1.0, 3.0]]
    assert pair[1].values_SN.tolist() == [[10.0, 30.0], [11.0, 31.0]]
    assert match(a, Scores((0,), ("w",), np.array([[1.0]]))) is None


def test_the_mean_of_benchmarks_does_not_weigh_the_bigger_one_more():
    big = Scores((0,), tuple("abcdef"), np.ones((1, 6)))
    small = Scores((0,), ("a", "b"), np.zeros((1, 2)))
    both = stack({"big": big, "small": small})
    assert both is not None
    assert both.values_SN.mean() == pytest.approx(0.5)  # (1 + 0) / 2, not 6 / 8
    assert stack({"big": big, "other": Scores((1,), ("a",), np.ones((1, 1)))}) is None


def test_benchmarks_are_resampled_each_for_itself(tmp_path):
    # Two benchmarks without any noise, far apart: nothing about their mean is uncertain.
    for name, values in {"ifbench-embedded": [1.0] * 8, "math500-embedded": [0.0] * 4}.items():
        rows = [{"benchmark": name, "item_id": f"i{n}", "score": v} for n, v in enumerate(values)]
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    frames = [pd.read_parquet(path) for path in tmp_path.glob("*.parquet")]
    write_json(tmp_path / "arm/report.json", {"arm": "arm", "seed": 0, "domain": "helpdesk", "metrics": {}})
    pd.concat(frames).to_parquet(tmp_path / "arm/items.parquet")
    cell = compare([read_evaluation(tmp_path / "arm")])["rows"][0]["cells"]["eval/ood-embedded/mean"]
    assert (cell["mean"], cell["low"], cell["high"]) == pytest.approx((0.5, 0.5, 0.5))


def test_pairing_shows_what_overlapping_intervals_hide():
    base = [0.0] * 50 + [1.0] * 50
    better = [1.0] * 8 + base[8:]
    report = compare([evaluation("base", base), evaluation("arm", better)])
    low, high = report["rows"][1]["cells"][GREEDY]["low"], report["rows"][0]["cells"][GREEDY]["high"]
    assert low < high
    (row,) = [row for row in report["paired"] if row["metric"] == GREEDY]
    assert (row["a"], row["b"], row["shown"]) == ("arm", "base", True)
    assert row["difference"] == pytest.approx(0.08)


def test_no_winner_is_named_inside_an_interval():
    base = [0.0, 1.0] * 50
    noisy = [1.0, 0.0] * 26 + [0.0, 1.0] * 24
    report = compare([evaluation("base", base), evaluation("arm", noisy)])
    place = standing(report, GREEDY)
    assert place is not None
    assert not place.clear
    assert "no winner" in verdict(report)[0]
    assert "wins" not in table_markdown(report)


def test_arms_that_stand_level_at_one_figure_have_no_highest():
    report = compare([evaluation("base", [0.0] * 4), evaluation("arm", [0.0] * 4)])
    assert verdict(report)[0] == "helpdesk success, greedy: no winner. All arms stand at 0.0 %."


def test_five_items_have_no_winner_however_they_end():
    report = compare([evaluation("base", [0.0] * 5), evaluation("arm", [1.0] * 5)])
    assert "no winner" in verdict(report)[0]
    assert "wins" not in table_markdown(report)
    assert not any(row["shown"] for row in report["paired"] if row["metric"] == GREEDY)


def test_a_clear_winner_is_named():
    report = compare([evaluation("base", [0.0] * 90 + [1.0] * 10), evaluation("arm", [1.0] * 60 + [0.0] * 40)])
    assert verdict(report)[0].startswith("helpdesk success, greedy: arm wins with 60.0 %")


def test_what_stands_first_or_level_at_either_temperature_has_its_price_named():
    hot = {f"task-{n}": n % 2.0 for n in range(100)}
    greedy = {"base": [0.0] * 100, "arm": [1.0] * 50 + [0.0] * 50, "sft": [1.0] * 90 + [0.0] * 10}
    shares = {"base": dict.fromkeys(hot, 0.0), "arm": hot, "sft": {**hot, "task-0": 1.0}}
    report = compare([
        replace(one, items={**one.items, "eval/helpdesk/success_t1": shares[one.arm]})
        for one in (evaluation(arm, scores) for arm, scores in greedy.items())
    ])  # fmt: skip
    said = verdict(report)
    assert "sft wins" in said[0]
    assert "level with arm" in said[1]
    assert said[-1] == "Cost of one seed: sft no rollouts, 0 trained tokens; arm no rollouts, 0 trained tokens."


def test_the_reversed_pair_has_the_reversed_interval():
    report = compare([evaluation("base", [0.0] * 10), evaluation("arm", [1.0, 1.0] + [0.0] * 8)])
    forward, backward = paired_row(report, "arm", "base", GREEDY), paired_row(report, "base", "arm", GREEDY)
    assert forward is not None
    assert backward is not None
    assert (backward["difference"], backward["low"]) == (-forward["difference"], -forward["high"])


def test_a_metric_that_is_no_number_stays_unknown(tmp_path: Path):
    report = compare([evaluation("base", [1.0]), evaluation("arm", [1.0], metrics={"eval/drift/kl_neutral": None})])
    assert report["rows"][1]["cells"]["eval/drift/kl_neutral"]["mean"] is None
    assert "Not a number: eval/drift/kl_neutral of arm-0." in report["notes"]
    assert "not a number" in table_markdown(report)
    write_json(tmp_path / "report.json", report)


def test_a_skipped_benchmark_says_why():
    skipped = [{"name": "scicode-embedded", "n": 0, "metric": "pass rate", "skipped": "no sandbox: bwrap is missing"}]
    report = compare([evaluation("base", [1.0], benchmarks=skipped), evaluation("arm", [1.0], benchmarks=skipped)])
    assert report["benchmarks"] == skipped
    assert "skipped: no sandbox" in table_markdown(report)


IFB, SCI = "eval/ifbench-embedded/score", "eval/scicode-embedded/score"
NO_BWRAP = "no sandbox: bwrap is missing"


def benched(arm: str, seed: int = 0, skip: bool = False) -> Evaluation:
    """ifbench all right for the arm and half right for base; scicode all wrong, or skipped."""
    ifbench = {f"i{n}": 1.0 if arm != "base" else n % 2.0 for n in range(20)}
    items = {IFB: ifbench} if skip else {IFB: ifbench, SCI: {f"s{n}": 0.0 for n in range(20)}}
    entries = [
        {"name": "ifbench-embedded", "n": 20, "metric": "accuracy", "skipped": None},
        {"name": "scicode-embedded", "n": 20, "metric": "pass rate", "skipped": NO_BWRAP if skip else None},
    ]
    return Evaluation(arm, seed, {"arm": arm, "seed": seed, "metrics": {}, "benchmarks": entries}, items)


@pytest.mark.parametrize("skipping", ["base", "arm"])
def test_the_mean_is_over_the_benchmarks_that_all_arms_have(skipping: str):
    report = compare([benched(arm, skip=arm == skipping) for arm in ("base", "arm")])
    means = {row["arm"]: row["cells"][OOD_MEAN]["mean"] for row in report["rows"]}
    assert means == {"base": 0.5, "arm": 1.0}  # ifbench alone: with scicode one of them would be halved
    assert paired_row(report, "arm", "base", OOD_MEAN)["difference"] == 0.5
    said = f"The mean of OOD leaves out scicode-embedded, which not all arms and seeds have: {NO_BWRAP} ({skipping}-0)."
    assert said in report["notes"]
    (line,) = [line for line in table_markdown(report).splitlines() if line.startswith("| scicode")]
    cells = {"base": "0.0 (0-17)", "arm": "0.0 (0-17)", skipping: "skipped: no sandbox"}  # 1 - 0.025^(1/20) = 16.8 %
    assert line == f"| scicode-embedded, n = 20 | {cells['base']} | {cells['arm']} |"


def test_a_seed_that_skipped_a_benchmark_leaves_the_mean_of_the_others():
    report = compare([benched(arm, seed, skip=(arm, seed) == ("arm", 1)) for arm in ("base", "arm") for seed in (0, 1)])
    assert [row["cells"][OOD_MEAN]["mean"] for row in report["rows"]] == [0.5, 1.0]
    assert paired_row(report, "arm", "base", OOD_MEAN)["seeds"] == 2
    assert any("leaves out scicode-embedded" in note and "(arm-1)" in note for note in report["notes"])
    assert report["rows"][1]["cells"][SCI]["mean"] == 0.0  # of the seed that has it


def test_what_all_arms_have_is_left_out_of_nothing():
    report = compare([benched("base"), benched("arm")])
    assert [row["cells"][OOD_MEAN]["mean"] for row in report["rows"]] == [0.25, 0.5]  # (0.5 + 0) / 2, (1 + 0) / 2
    assert not any("leaves out" in note for note in report["notes"])


@pytest.mark.parametrize(("seeds", "note"), [(1, "One seed"), (2, "sees only 1/2"), (3, "sees only 2/3"), (4, "")])
def test_few_seeds_are_said_to_be_few(seeds: int, note: str):
    report = compare([evaluation(arm, [0.0, 1.0], seed) for arm in ("base", "arm") for seed in range(seeds)])
    assert [one for one in report["notes"] if "seed" in one] == report["notes"]
    assert len(report["notes"]) == (1 if note else 0)
    assert note in "".join(report["notes"])


@pytest.mark.parametrize(("arms", "said"), [(3, False), (4, True)])
def test_many_arms_have_the_marks_of_chance_counted(arms: int, said: bool):
    report = compare([benched("base"), *(benched(f"arm{n}") for n in range(arms))])
    notes = [note for note in report["notes"] if "by chance" in note]
    # ifbench, scicode and their mean: 4 arms in 3 measures, 0.05 * 12 = 0.6
    start = "4 arms in 3 measures are compared with base: about 0.6 of 12 marks are expected to show a difference"
    assert [note.startswith(start) for note in notes] == ([True] if said else [])


def test_a_winner_of_one_training_run_each_is_said_to_be_one():
    scores = {"base": [0.0] * 90 + [1.0] * 10, "arm": [1.0] * 60 + [0.0] * 40}
    one = verdict(compare([evaluation(arm, values) for arm, values in scores.items()]))[0]
    two = verdict(compare([evaluation(arm, values, seed) for arm, values in scores.items() for seed in (0, 1)]))[0]
    assert "arm wins with 60.0 % (one training run each), beyond the interval of every other arm" in one
    assert "arm wins with 60.0 %, beyond the interval of every other arm" in two


def test_the_table_comes_after_the_verdict_and_the_notes():
    lines = table_markdown(compare([benched("base"), benched("arm", skip=True)])).rstrip().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("|"))
    assert all(line.startswith("|") for line in lines[first:])
    assert any("leaves out scicode" in line for line in lines[:first])


def test_profiling_and_the_start_policy_are_paid_for():
    graph = {
        "trains": {
            "sft-0": {"arm": "sft", "start": "models/base", "pool": "sft"},
            "two-0": {"arm": "two", "start": "models/sft/0", "pool": "two-0"},
            "random-0": {"arm": "random", "start": "models/base", "pool": "random"},
        },
        "selects": {"sft": {"profile": "base"}, "two-0": {"profile": "sft-0"}, "random": {"profile": "base"}},
    }
    selects = {
        "sft": {"reads_profile": False},
        "two-0": {"reads_profile": True},
        "random": {"reads_profile": False},
    }
    trains = {key: {"metrics": {"cost/rollout_turns": n}} for key, n in (("sft-0", 5), ("two-0", 64), ("random-0", 64))}
    profiles = {"base": {"metrics": {"cost/rollout_turns": 800}}, "sft-0": {"metrics": {"cost/rollout_turns": 900}}}
    cost = cost_by_arm(["base", "sft", "two", "random"], selects, trains, profiles, graph)
    assert cost["base"]["rollout_turns"] == 0
    assert cost["sft"]["rollout_turns"] == 5
    assert cost["random"]["rollout_turns"] == 64
    assert cost["two"]["rollout_turns"] == 64 + 5 + 900
    assert (cost["two"]["profiling_turns"], cost["two"]["start_turns"]) == (900, 5)
    trains["two-0"] = {"metrics": {"cost/rollout_turns": 64 + 300, "cost/reprofiling_turns": 300}}  # profiled again
    again = cost_by_arm(["two"], selects, trains, profiles, graph)["two"]
    assert again["rollout_turns"] == 64 + 300 + 5 + 900
    assert (again["profiling_turns"], again["start_turns"], again["training_turns"]) == (300 + 900, 5, 64)
    trains["random-0"] |= {"replay": True}  # trains on what the profile found
    assert cost_by_arm(["random"], selects, trains, profiles, graph)["random"]["rollout_turns"] == 64 + 800


def test_the_table_names_item_sets_as_embedded(tmp_path: Path):
    root = write_reports(tmp_path, ("base", "sft", "pivotrl", "lambda-04", "lambda-08"), (0, 1, 2))
    report = read_json(root / "reports/compare/report.json")
    text = table_markdown(report)
    assert "ifbench-embedded, n = 32" in text
    assert "mean of OOD, embedded, n = 192" in text
    assert OOD_MEAN in report["rows"][0]["cells"]


def test_markup_in_a_report_stays_text():
    report = compare([evaluation("base", [1.0], notes=["<script>x|y</script>"]), evaluation("arm", [0.0])])
    assert "&lt;script>x\\|y&lt;/script>" in table_markdown(report)


def test_two_arms_are_compared_by_parameters_and_metrics(tmp_path: Path):
    text = compare_runs("pivotrl", "sft", write_reports(tmp_path))
    assert "train.method" in text
    assert "grpo | sft" in text
    assert "profiling_turns" in text
    assert max(map(len, text.splitlines())) <= 120


def test_one_number_in_two_spellings_is_no_difference_and_a_default_is_none_to_its_own_value(tmp_path: Path):
    root = write_reports(tmp_path, arms=("base", "pivotrl", "lambda-04"))
    params = yaml.safe_load((root / "params.yaml").read_text())
    arms = params["arms"]
    arms["pivotrl"]["train"] |= {"steps": 24, "optimiser": {"learning_rate": 0.5}}
    arms["lambda-04"]["train"] |= {"optimiser": {"learning_rate": 0.25, "schedule": "constant"}}
    text = yaml.safe_dump(params).replace("0.25", "3e-5").replace("0.5", "0.00003")
    (root / "params.yaml").write_text(text)
    different = compare_runs("pivotrl", "lambda-04", root).partition("\n\n")[0].splitlines()[1:]
    assert [line.split() for line in different] == [["select.lambda_diff", "0.6", "|", "0.4"]]


def test_held_out_turns_are_compared_in_pairs_where_there_is_no_environment(tmp_path):
    scores = {"base": [0.0, 0.0, 1.0, 0.0], "arm": [1.0, 1.0, 1.0, 0.0]}
    for arm, values in scores.items():
        rows = [
            {"candidate_id": f"c{n}", "temperature": t, "reward": v / 2, "accepted": v == 1.0}
            for n, v in enumerate(values)
            for t in (0.0, 1.0)
        ]
        write_json(tmp_path / arm / "report.json", {"arm": arm, "seed": 0, "domain": "turns", "metrics": {}})
        pd.DataFrame(rows).to_parquet(tmp_path / arm / "turns.parquet")
    report = compare([read_evaluation(tmp_path / arm) for arm in scores])
    paired = {row["metric"]: row for row in report["paired"]}
    assert list(paired) == ["eval/turns/accuracy_greedy", "eval/turns/accuracy_t1"]
    assert paired["eval/turns/accuracy_greedy"]["difference"] == 0.5  # (3 - 1) / 4
    assert verdict(report)[0].startswith("turns accuracy, greedy: ")
