"""`pivotrl inspect` shows what the limits of params.yaml drop, and the lengths that they can be set by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.inspecting import inspect_text
from pivotrl_core.environments.recording import to_openai_row
from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import write_json, write_jsonl
from tests.toy_training import toy_trajectories


@pytest.fixture
def file(tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four trajectories, in a checkout whose parameters `_limits` writes."""
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "model").symlink_to(tiny_llama)
    _limits(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my.jsonl"
    write_jsonl(file, [to_openai_row(one) for one in toy_trajectories(4)])
    return file


def _limits(root: Path, text: str) -> None:
    (root / "params.yaml").write_text(f"model: {{kind: folder, path: model}}\ndata: {{{text}}}\narms: {{base: {{}}}}\n")


def _inspected(file: Path, **options: bool) -> dict[str, Any]:
    return dict(json.loads(inspect_text([file], as_json=True, **options)))


def _dropped(inspected: dict[str, Any]) -> tuple[int, int]:
    limits = inspected["candidates_dropped_by_limit"]
    return limits["data.max_state_tokens"]["dropped"], limits["data.max_action_tokens"]["dropped"]


def test_states_and_actions_have_lengths_of_their_own_and_limits_say_what_they_drop(file: Path) -> None:
    free = _inspected(file)  # four calls, and after each of them, in a longer state, a longer message
    states, actions, both = (free[f"{kind}tokens_by_quantile"] for kind in ("state_", "action_", ""))
    assert states["1"] > states["0"] > actions["1"] > actions["0"] > 0
    assert (both["0"], both["1"]) == (states["0"] + actions["0"], states["1"] + actions["1"])
    assert _dropped(free) == (0, 0)
    for limits, dropped in (
        ((states["1"], actions["1"]), (0, 0)),
        ((states["1"] - 1, actions["1"]), (4, 0)),
        ((states["1"], actions["1"] - 1), (0, 4)),
        ((states["1"] - 1, actions["1"] - 1), (4, 0)),  # the longer messages go with their states
        ((states["1"] - 1, actions["0"] - 1), (4, 4)),
    ):
        _limits(file.parent, f"max_state_tokens: {limits[0]}, max_action_tokens: {limits[1]}")
        assert _dropped(_inspected(file)) == dropped
    _limits(file.parent, "max_state_tokens: 1")
    assert "  data.max_state_tokens:\n    limit: 1\n" in inspect_text([file], as_json=False)


@pytest.mark.parametrize("tokens", [True, False])
def test_rows_are_dropped_by_the_configured_limit_of_arguments(file: Path, tokens: bool) -> None:
    assert _inspected(file, tokens=tokens)["dropped"] == 0
    _limits(file.parent, "max_argument_bytes: 1")
    assert _inspected(file, tokens=tokens)["dropped"] == 4


def test_of_a_folder_that_is_read_which_a_run_would_train_on_and_the_warmup_stands_apart(file: Path) -> None:
    rows = [to_openai_row(one) for one in toy_trajectories(9)]
    folder = file.parent / "mine"
    for name, part in (("a.jsonl", rows[:4]), (".b.jsonl", rows[4:6]), ("warmup/w.jsonl", rows[6:])):
        write_jsonl(folder / name, part)
    for name in ("notes.json", "manifest.json"):
        (folder / name).write_text("[]")
    inspected = _inspected(folder)
    assert (inspected["read"], inspected["kept"], inspected["warmup"]["kept"]) == (4, 4, 3)
    assert "warmup:\n  " in inspect_text([folder], as_json=False)
    (folder / "warmup" / "warmup").mkdir()
    with pytest.raises(DataError, match="to train on"):
        _inspected(folder / "warmup" / "warmup")


def test_lengths_are_those_of_the_model_and_parameters_that_are_named(file: Path, tiny_qwen3: Path) -> None:
    def longest(*options: str) -> int:
        answer = CliRunner().invoke(app, ["inspect", str(file), "--json", *options])
        assert answer.exit_code == 0, answer.output
        return int(json.loads(answer.output)["state_tokens_by_quantile"]["1"])

    other = file.parent / "other.yaml"
    other.write_text("model: {kind: folder, path: none}\ndata: {tool_format: hermes}\narms: {base: {}}\n")
    model = ("--model", str(tiny_qwen3))
    assert longest() == longest(*model)  # the tiny models share a tokenizer
    assert longest("--params", str(other), *model) != longest()


def test_a_tool_name_that_the_format_cannot_carry_drops_its_row_and_hermes_takes_it(file: Path) -> None:
    row = {**to_openai_row(toy_trajectories(1)[0]), "id": "spaced", "tools": []}
    call = {"id": "c", "function": {"name": "find it", "arguments": "{}"}}
    row["messages"] = [row["messages"][0], {"role": "assistant", "content": None, "tool_calls": [call]}]
    write_jsonl(file, [*(to_openai_row(one) for one in toy_trajectories(4)), row])
    inspected = _inspected(file)
    assert (inspected["kept"], inspected["by_reason"]) == (4, {"unwritable_name": 1})
    assert "hermes" in inspected["drops"][0]["remedy"]
    _limits(file.parent, "tool_format: hermes")
    assert _inspected(file)["kept"] == 5


def test_a_folder_that_is_no_model_and_a_name_that_no_run_reads_are_told(file: Path) -> None:
    empty = file.parent / "empty"
    empty.mkdir()
    for what, missing in (("is no model folder", {}), ("no tokenizer", {"config.json": "{}"})):
        for name, text in missing.items():
            (empty / name).write_text(text)
        answer = CliRunner().invoke(app, ["inspect", str(file), "--model", str(empty)])
        assert isinstance(answer.exception, ConfigError)
        assert what in str(answer.exception)
    other = file.rename(file.parent / "my.txt")
    with pytest.raises(DataError, match="such a name"):
        inspect_text([other], as_json=False)


def test_several_files_folders_and_patterns_are_inspected_as_one_and_each_file_once(file: Path) -> None:
    rows = [to_openai_row(one) for one in toy_trajectories(9)]
    for name, part in (("a/x.jsonl", rows[4:6]), ("b/y.jsonl", rows[6:])):
        write_jsonl(file.parent / "runs" / name, part)
    places = [str(file), str(file.parent / "runs" / "*" / "*.jsonl"), str(file.parent / "runs" / "a")]
    answer = CliRunner().invoke(app, ["inspect", *places, "--no-tokens", "--json"])
    assert answer.exit_code == 0, answer.output
    report = json.loads(answer.output)
    assert (report["read"], report["kept"]) == (9, 9)
    assert sum(report["candidates_by_decision"].values()) == report["candidates"]
    with pytest.raises(DataError, match="to train on"):
        inspect_text([file.parent / "runs" / "nothing*"], as_json=False)


def test_pools_of_the_checkout_show_where_pivots_concentrate(file: Path) -> None:
    assert "pools_of_this_checkout_by_decision" not in _inspected(file, tokens=False)
    kept = {"argument": {"profiled": 4, "kept": 1}}
    write_json(file.parent / "data" / "pools" / "pivotrl" / "report.json", {"by_decision": kept})
    write_json(file.parent / "data" / "pools" / "older" / "report.json", {})
    assert _inspected(file, tokens=False)["pools_of_this_checkout_by_decision"] == {"pivotrl": kept}
