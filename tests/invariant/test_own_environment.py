"""An environment beside trajectories of one's own: policies are played in it, and its rules count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pivotrl_core.config.graph import derive_graph
from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.environments.recording import iter_trajectories, to_openai_row
from pivotrl_core.environments.registry import get_expert_domain
from pivotrl_core.files import read_json, write_json, write_jsonl
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import Places, StageContext
from pivotrl_core.stages.evaluate import run_evaluate
from pivotrl_core.stages.evaluation_parts import TASK_SEED
from pivotrl_core.stages.profile import run_profile
from pivotrl_core.stages.select import run_select
from pivotrl_core.stages.train import run_train
from pivotrl_core.stages.verification import grading_id
from pivotrl_core.stages.warmup import run_warmup
from pivotrl_core.types import Split
from tasks.sources import model_identity

pytestmark = pytest.mark.usefixtures("deterministic")

DESK = get_expert_domain("helpdesk")


def configuration(model: Path, **source: str) -> Config:
    return parse_config({
        "model": {"kind": "folder", "path": str(model)},
        "source": {"kind": "folder", "path": "unused: the data are pulled already", **source},
        "data": {"validation_share": 0.2, "test_share": 0.2},
        "compute": {"threads": 1, "dtype": "float32"},
        "warmup": {"epochs": 0},
        "profile": {"samples": 2, "max_tokens": 4},
        "evaluate": {
            "max_tokens": 4, "episodes": 3, "max_turns": 2, "items": 2, "drift_texts": 1, "benchmarks": ["ifbench"],
        },
        "arms": {
            "base": {},
            "e2e": {
                "select": {"rule": "all"},
                "train": {
                    "method": "e2e", "steps": 1, "prompts_per_step": 2, "group_size": 2, "max_tokens": 4,
                    "max_turns": 2,
                },
            },
        },
    })  # fmt: skip


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST], ids=["other tasks", "the tasks of the evaluation"])
def test_policies_are_played_and_trained_in_the_environment_that_the_source_names(
    split: Split, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration(tiny_llama, environment="helpdesk")
    recorded = iter_trajectories(DESK, split, 8, TASK_SEED)
    write_jsonl(tmp_path / "data/pulled/train/mine.jsonl", map(to_openai_row, recorded))
    write_json(tmp_path / "data/pulled/model.json", model_identity(config.model, tmp_path))
    context = StageContext(config, tmp_path, tmp_path / "scratch", tmp_path / "store", tmp_path / "cache", tmp_path)
    run_warmup(context)
    run_candidates(context)
    run_profile(context, "base", "models/base")
    run_select(context, "e2e", "e2e", "base")
    run_train(context, "e2e", 0, "models/base", "e2e")
    run_evaluate(context, "e2e", 0, "models/e2e/0")
    assert "evaluate: episodes-0 measured, 1 of " in capsys.readouterr().out

    report = read_json(tmp_path / "reports/evaluate/e2e-0/report.json")
    assert {"eval/helpdesk/success_greedy", "eval/helpdesk/success_t1"} <= set(report["metrics"])
    assert not any(name.startswith("eval/turns/") for name in report["metrics"])
    assert (report["domain"], report["embedded"]) == ("helpdesk", False)
    known = r"[1-3] of the evaluation's 3 tasks are those of training trajectories: they are not held out\."
    assert [bool(re.fullmatch(known, note)) for note in report["notes"]] == ([True] if split is Split.TEST else [])
    assert (tmp_path / "reports/evaluate/e2e-0/episodes.parquet").is_file()


def test_a_profile_depends_on_the_environment_and_on_nothing_else_of_the_source(tmp_path: Path) -> None:
    plain, elsewhere = configuration(tmp_path), configuration(tmp_path, path="elsewhere")
    own = configuration(tmp_path, environment="helpdesk")
    places = Places(tmp_path, tmp_path, tmp_path)
    assert grading_id(plain, places) == grading_id(elsewhere, places) != grading_id(own, places)
    assert [derive_graph(one)["rules"] for one in (plain, own)] == ["source.kind", "source.environment"]
    assert derive_graph(parse_config({"source": {"kind": "embedded", "domain": "helpdesk"}, "arms": {"base": {}}}))[
        "rules"
    ] == ("source.domain")
