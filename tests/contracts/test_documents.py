"""What the documents say exists: parameter files load, links lead somewhere, named functions and tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pivotrl_core.config.arms import FullParameters, GRPOTrain
from pivotrl_core.config.inputs import HubModel
from pivotrl_core.config.loading import load_config

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/*.md")])
PARAMETERS = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]
CORE, TESTS = ROOT / "pivotrl_core", ROOT / "tests"


@pytest.mark.parametrize("path", PARAMETERS, ids=lambda path: path.name)
def test_every_parameter_file_loads(path: Path) -> None:
    assert "base" in load_config(path).arms


def test_the_paper_s_setting_is_the_paper_s() -> None:
    config = load_config(ROOT / "params" / "paper.yaml")
    train = config.arms["pivotrl"].train
    assert isinstance(config.model, HubModel)
    assert config.model.repo == "Qwen/Qwen3-30B-A3B-Thinking-2507"
    assert isinstance(train, GRPOTrain)
    assert (train.prompts_per_step, train.group_size, train.optimiser.learning_rate) == (64, 16, 1e-6)
    assert (train.optimiser.schedule, train.optimiser.warmup_steps) == ("constant", 0)
    assert (train.kl.weight, train.clip.low, train.clip.high, train.temperature) == (0.0, 0.2, 0.2, 1.0)
    assert (str(train.loss), str(train.baseline), str(train.advantage)) == ("dapo", "leave_one_out", "group_std")
    assert isinstance(train.parameters, FullParameters)
    assert config.data.max_state_tokens + config.data.max_action_tokens == 32768


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    own = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in own if not (page.parent / target).exists()] == []


def test_every_page_and_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def test_functions_and_tests_of_the_equation_table_exist() -> None:
    rows = [line for line in (ROOT / "docs" / "algorithm.md").read_text(encoding="utf-8").splitlines() if "| `" in line]
    checked = 0
    for row in rows:
        for name, file in re.findall(r"`((?!test_)[A-Za-z_.]+)`, `([a-z_/]+\.py)`", row):
            text = (CORE / file).read_text(encoding="utf-8")
            assert all(re.search(rf"(def|class) {part}\b", text) for part in name.split(".")), f"{name} in {file}"
            checked += 1
        for names, file in re.findall(r"((?:`test_\w+`, )+)`((?:unit|invariant)/\w+\.py)`", row):
            text = (TESTS / file).read_text(encoding="utf-8")
            assert all(f"def {name}(" in text for name in re.findall(r"`(test_\w+)`", names)), f"{names} in {file}"
            checked += 1
    assert checked > 30


def test_paths_that_pages_name_exist() -> None:
    roots = (ROOT, CORE, TESTS, ROOT / "docs", ROOT / "infra")
    for page in PAGES:
        for path in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9.]+)+\.(?:py|yaml|md|sh))`", page.read_text(encoding="utf-8")):
            assert any((root / path).exists() for root in roots), f"{page.name} names {path}"


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License")
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_ci_runs_the_test_command_of_the_readme() -> None:
    assert "exec make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"    make {target} " in readme for target in ("demo", "test"))


def test_hooks_run_tools_that_the_lock_pins() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    locked = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert tools == {"ruff", "codespell"}
    assert all(f"\n{tool}==" in locked for tool in tools)


def test_make_has_a_rule_for_every_target_that_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    texts = [makefile, *(path.read_text(encoding="utf-8") for path in [*PAGES, *ROOT.glob("requirements/*.lock")])]
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split()
    named = {*phony, *(name for text in texts for name in re.findall(r"(?:`|    |with: )make ([a-z-]+)\b", text))}
    assert named - set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE)) == set()


def test_every_environment_variable_of_ours_is_in_the_table() -> None:
    places = [*(ROOT / "flows").rglob("*.py"), *(ROOT / "tasks").rglob("*.py"), *CORE.rglob("*.py")]
    infra = [path for path in (ROOT / "infra").rglob("*") if path.suffix in (".sh", ".yaml")]
    named = {name for path in [*places, *infra] for name in re.findall(r"\bPIVOTRL_[A-Z_]+", path.read_text("utf-8"))}
    table = re.findall(r"^\| `(PIVOTRL_[A-Z_]+)` \|", (ROOT / "docs/operations.md").read_text("utf-8"), re.MULTILINE)
    assert named == set(table)
    assert len(named) > 8
