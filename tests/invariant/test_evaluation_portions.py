"""An evaluation that was killed goes on from the portions it had measured, and ends in the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pivotrl_core.config.loading import parse_config
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.protocol import TokenCount
from pivotrl_core.engines.transformers_engine import TransformersEngine
from pivotrl_core.files import file_digest, read_json
from pivotrl_core.stages.candidates import run_candidates
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.evaluate import run_evaluate
from pivotrl_core.stages.portions import Portion, Portions, Rows
from tests.toy_training import pull_toys, toy_trajectories

pytestmark = pytest.mark.usefixtures("deterministic")

EMBEDDED = {"kind": "embedded", "domain": "helpdesk"}
FOLDER = {"kind": "folder", "path": "unused: the data are pulled already"}
EPISODES = 70  # 64 tasks at two temperatures are played at once: two batches of 35
BENCHMARKS = ["ifbench", "mmlu-pro"]


def configuration(model: Path, source: dict[str, str]) -> Config:
    return parse_config({
        "model": {"kind": "folder", "path": str(model)},
        "source": source,
        "data": {"validation_share": 0.3, "test_share": 0.3},
        "compute": {"threads": 1, "dtype": "float32"},
        "evaluate": {
            "episodes": EPISODES, "max_turns": 1, "max_tokens": 3, "turns": 4, "items": 2, "drift_texts": 2,
            "benchmarks": BENCHMARKS,
        },
        "arms": {"base": {}},
    })  # fmt: skip


def context(root: Path, config: Config) -> StageContext:
    return StageContext(config, root, root / "scratch", root / "store", root / "cache", root)


def evaluate(root: Path, config: Config) -> dict[str, str]:
    """Digests of what an evaluation leaves, but for its seconds."""
    run_evaluate(context(root, config), "base", 0, "models/base")
    return {path.name: file_digest(path) for path in sorted((root / "reports/evaluate/base-0").iterdir())}


@pytest.mark.parametrize(
    ("source", "portions"),
    [
        (EMBEDDED, ["episodes-0", "episodes-35", "ifbench-embedded", "mmlu-pro-embedded"]),
        (FOLDER, ["turns-greedy", "turns-t1", "ifbench-embedded", "mmlu-pro-embedded"]),
    ],
    ids=["episodes", "held-out turns"],
)
def test_a_killed_evaluation_equals_an_undisturbed_one(
    source: dict[str, str], portions: list[str], tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(tiny_llama, source)
    pull_toys(tmp_path, toy_trajectories(20))
    shutil.copytree(tiny_llama, tmp_path / "models/base")
    run_candidates(
        StageContext(config, tmp_path, tmp_path / "scratch", tmp_path / "store", tmp_path / "cache", tmp_path)
    )
    undisturbed = evaluate(tmp_path, config)
    shutil.rmtree(tmp_path / "scratch")
    began: list[str] = []
    original = Portions._rows

    def rows(self: Portions, portion: Portion) -> tuple[Rows, TokenCount]:
        def once(engine: TransformersEngine) -> Rows:
            began.append(portion.name)
            if len(began) % 2 == 0:  # every start finishes one portion and is killed in the next
                raise KeyboardInterrupt
            return portion.measure(engine)

        return original(self, Portion(portion.name, once))

    monkeypatch.setattr(Portions, "_rows", rows)
    for _ in portions[1:]:
        with pytest.raises(KeyboardInterrupt):
            evaluate(tmp_path, config)
    assert evaluate(tmp_path, config) == undisturbed
    assert began == [portions[0], *(name for one in portions[1:] for name in (one, one))]  # nothing finished is redone
    kept = sorted(path.stem for path in (tmp_path / "scratch/portions").glob("*.json"))
    assert kept == sorted(portions)
    assert json.loads((tmp_path / "scratch/portions" / f"{portions[0]}.json").read_text())["rows"]


def test_an_evaluation_counts_no_sample_that_drift_takes_of_base(tmp_path: Path, tiny_llama: Path) -> None:
    """Whether policy and base share a model, as with an adapter, or not, as after training of all parameters."""
    config = configuration(tiny_llama, FOLDER)
    pull_toys(tmp_path, toy_trajectories(20))
    for name in ("base", "trained"):
        shutil.copytree(tiny_llama, tmp_path / "models" / name)
    run_candidates(context(tmp_path, config))
    reports = []
    for name in ("base", "trained"):
        shutil.rmtree(tmp_path / "scratch", ignore_errors=True)
        run_evaluate(context(tmp_path, config), "base", 0, f"models/{name}")
        reports.append(read_json(tmp_path / "reports/evaluate/base-0/report.json"))
    costs = [{key: value for key, value in one["metrics"].items() if key.startswith("cost/")} for one in reports]
    assert costs[0] == costs[1]
    assert costs[0]["cost/rollout_turns"] == 4 * 2 + 2 * len(BENCHMARKS)  # turns at two temperatures, items
    states, pairs = reports[0]["drift"]["states"], reports[0]["drift"]["pairs"]
    assert 1 <= states <= 2  # drift_texts
    assert states <= pairs <= 6 * states  # of four samples at a state, two to four are distinct
