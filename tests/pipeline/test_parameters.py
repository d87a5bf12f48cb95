"""Keys of params.yaml that stages depend on and the file leaves out: refused in a checkout, filled in in a worktree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flows.launch import make_request
from flows.parameters import complete_parameters, require_parameters
from flows.request import Request, read_values, values_text
from flows.session import open_session
from flows.stage_program import run_stage_program
from pivotrl_core.config.graph import write_graph
from pivotrl_core.config.loading import config_digest, load_config, parse_config
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_text
from tasks.graph import missing_parameters, query_graph
from tasks.report import write_report
from tasks.run_reports import read_run
from tests.report_files import write_reports

from .conftest import ROOT, git

pytestmark = pytest.mark.usefixtures("prefect_server")

ARMS = {
    "base": {},
    "sft": {"select": {"rule": "all"}, "train": {"method": "sft"}},
    "pivotrl": {"select": {"rule": "pivots"}, "train": {"method": "grpo"}},
}
KEYS = {"model", "warmup", "data", "compute", "source.domain", "data.tool_format", "data.chat_template_kwargs",
        "profile", "verifier", "source", "evaluate", "engine", "seeds"}  # fmt: skip


@pytest.fixture
def pipeline(checkout: Path) -> Path:
    """A checkout with the real dvc.yaml, and parameters that say nothing but the arms."""
    shutil.copyfile(ROOT / "dvc.yaml", checkout / "dvc.yaml")
    (checkout / "params.yaml").write_text(values_text({"arms": ARMS}))
    write_graph(load_config(checkout / "params.yaml"), checkout / "graph.yaml")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "arms alone")
    return checkout


def test_base_alone_can_be_compared_and_reported(pipeline: Path) -> None:
    write_reports(pipeline, arms=("base",))
    shutil.rmtree(pipeline / "data")  # no arm trains, so nothing is profiled or selected
    values = Request(arms=("base",)).apply(read_values(pipeline / "params.yaml") | {"arms": ARMS})
    write_graph(parse_config(values), pipeline / "graph.yaml")
    complete_parameters(pipeline, values, parse_config(values))
    shutil.copytree(ROOT / "pivotrl_core", pipeline / "pivotrl_core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "requirements", pipeline / "requirements")
    (compare,) = (one for one in query_graph(pipeline) if one.name == "compare")
    assert compare.deps == ("evaluate@base-0",)
    run_stage_program(pipeline, "compare")  # refuses where an input is not there
    assert [row["arm"] for row in read_run(pipeline).comparison["rows"]] == ["base"]
    report = write_report(pipeline, pipeline / "out", {"run_id": "run-1"}, "")
    assert "base" in report.read_text(encoding="utf-8")


def test_a_checkout_whose_parameters_lack_what_stages_depend_on_is_refused_before_anything_runs(pipeline: Path) -> None:
    config = load_config(pipeline / "params.yaml")
    assert set(missing_parameters(pipeline)) == KEYS
    with (
        pytest.raises(
            ConfigError, match=r"params\.yaml: 'seeds' is missing.* for compare; add `seeds: \[0\]`"
        ) as caught,
        open_session("run", pipeline, Request(), "run-1"),
    ):
        pass
    lines = str(caught.value).splitlines()
    assert len(lines) == len(KEYS)
    expected = (
        "'data.tool_format' is missing, and DVC, which knows no defaults, needs it for profile, train, evaluate; "
    )
    assert any(line.endswith(f"{expected}add `tool_format: compact` to the section data") for line in lines)
    # What the message says to add is enough, and changes nothing.
    text = (pipeline / "params.yaml").read_text()
    added = [line.rpartition("add `")[2].rstrip("`") for line in lines if "to the section" not in line]
    (pipeline / "params.yaml").write_text("\n".join([text, *added]))
    require_parameters(pipeline, config)
    assert load_config(pipeline / "params.yaml") == config


def test_a_stage_by_hand_names_what_is_missing(pipeline: Path) -> None:
    inputs = yaml.safe_load((pipeline / "dvc.yaml").read_text())["stages"]["candidates"]["deps"]
    for path in inputs[1:]:
        write_text(pipeline / path / "some" if "." not in path else pipeline / path, "")
    with pytest.raises(ConfigError, match=rf"stage candidates: .*'{inputs[0]}' does not exist; run the stage"):
        run_stage_program(pipeline, "candidates")
    write_text(pipeline / inputs[0] / "some", "")
    with pytest.raises(ConfigError, match=r"Parameters '(model, data|data, model)' are missing .*Add them"):
        run_stage_program(pipeline, "candidates")


def test_a_worktree_gets_the_defaults_of_what_stages_depend_on(pipeline: Path) -> None:
    request = make_request(settings=["data.max_drop_share=0.5", "seeds=[0, 1]"], quick=True)
    with open_session("run", pipeline, request, "run-1") as session:
        values = read_values(session.root / "params.yaml")
        assert missing_parameters(session.root) == {}
        assert config_digest(parse_config(values)) == config_digest(session.config)
        assert session.config.data.max_drop_share == 0.5
        # A section that was there gets the key that is named, and not all its defaults: to DVC it would be another one.
        assert values["data"] == {"max_drop_share": 0.5, "tool_format": "compact", "chat_template_kwargs": {}}
        assert values["arms"]["pivotrl"]["select"] == {"rule": "pivots"}
    assert git(pipeline, "status", "--porcelain") == ""


def test_complete_parameters_stay_as_they_are_written(checkout: Path) -> None:
    before = (checkout / "params.yaml").read_text()
    complete_parameters(checkout, read_values(checkout / "params.yaml"), load_config(checkout / "params.yaml"))
    assert (checkout / "params.yaml").read_text() == before


def test_a_parameter_that_does_not_exist_is_an_error_of_the_pipeline_file(checkout: Path) -> None:
    text = (checkout / "dvc.yaml").read_text()
    (checkout / "dvc.yaml").write_text(text.replace("profile.samples", "profile.sampels"))
    with pytest.raises(ConfigError, match=r"dvc\.yaml: a stage depends on the parameter 'profile\.sampels'"):
        require_parameters(checkout, load_config(checkout / "params.yaml"))


@pytest.mark.parametrize("name", ["params.yaml", *(f"params/{one.name}" for one in sorted(ROOT.glob("params/*.yaml")))])
def test_the_shipped_parameters_have_every_key_that_stages_depend_on(name: str, tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "dvc.yaml", tmp_path / "dvc.yaml")
    shutil.copyfile(ROOT / name, tmp_path / "params.yaml")
    write_graph(load_config(tmp_path / "params.yaml"), tmp_path / "graph.yaml")
    git(tmp_path, "init", "-q")
    (tmp_path / ".dvc").mkdir()
    assert missing_parameters(tmp_path) == {}
