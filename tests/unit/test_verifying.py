"""`pivotrl verify`: one line out for each line in, whatever is in it."""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from flows import verifying
from flows.cli import app
from pivotrl_core.errors import ConfigError, DataError

CALL = {"type": "function_call", "name": "f", "arguments": '{"x": 1.0}'}
PARAMS = {"input": [{"role": "user", "content": "Please."}], "tools": []}
ROW = {"responses_create_params": PARAMS, "expected_action": CALL, "response": [{**CALL, "arguments": '{"x": 1}'}]}


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_line_has_its_verdict_or_says_why_not(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    surrogate = json.dumps({**ROW, "response": "a\ud800"})
    deep = json.dumps(ROW)[:-1] + ', "more": ' + "[" * 200_000 + "]" * 200_000 + "}"
    given = [json.dumps(ROW), "", "{broken", "  ", "[]", surrogate, '{"a": NaN}', "\x00", deep, json.dumps(ROW)]
    rows.write_bytes("\n".join(given).encode() + b"\n\xff\xfe\n")
    result = CliRunner().invoke(app, ["verify", str(rows), "--out", str(out)])
    assert result.exit_code == 1
    assert "6 of 9 rows have no verdict" in result.output
    found = lines_of(out.read_text())
    assert [line["reward"] for line in found] == [1.0, None, None, 0.0, None, None, None, 1.0, None]
    assert all(line["error"] for line in found if line["reward"] is None)
    assert found[0].keys() == {"reward", "components", "reason"}
    assert found[3]["reason"] == "call_expected"


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
def test_a_packed_file_is_read_errors_name_lines_and_the_older_form_of_a_call_is_one(tmp_path: Path, name: str) -> None:
    older = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"x": 1}'}}
    body = "\n".join([json.dumps({**ROW, "response": older}), "", "{broken"]).encode()
    pack = gzip.compress if name.endswith(".gz") else functools.partial(pa.compress, codec="zstd", asbytes=True)
    (tmp_path / name).write_bytes(pack(body))
    first, second = lines_of(CliRunner().invoke(app, ["verify", str(tmp_path / name)]).stdout)
    assert first["reward"] == 1.0
    assert second["error"].startswith("line 3: not JSON")


def test_compat_names_the_category_or_the_failure(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    software = {**ROW, "pivot_tags": ["P1"]}
    rows.write_text("\n".join(map(json.dumps, (ROW, software))))
    result = CliRunner().invoke(app, ["verify", str(rows), "--compat", "nemo-gym"])
    assert result.exit_code == 0
    first, second = lines_of(result.output)
    assert (first["reward"], first["category"]) == (0.0, "ARGUMENT_VALUE_TYPE_DIFFERENT")
    assert (second["reward"], second["failure_reason"]) == (1.0, "none")
    result = CliRunner().invoke(app, ["verify", str(rows), "--compat", "nemo-gym", "--domain", "swe"])
    assert [line["failure_reason"] for line in lines_of(result.output)] == ["none", "none"]


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "MAX_LINE_BYTES", 2000)
    rows, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    long = json.dumps({**ROW, "note": "x" * 5000})
    exact = json.dumps({**ROW, "note": "x" * (2000 - len(json.dumps(ROW)) - len(', "note": ""'))})
    assert len(exact) == 2000
    rows.write_text(f"{long}\n{json.dumps(ROW)}\n{exact}\n{long}")
    assert verifying.verify_file(rows, out=out) == 3  # with its line end the exact one is over the limit too
    assert [line["reward"] for line in lines_of(out.read_text())] == [None, 1.0, None, None]


def test_wrong_usage_is_named(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}")
    with pytest.raises(ConfigError, match="one of tool, terminal, swe, search, code"):
        verifying.verify_file(rows, domain="dance")
    with pytest.raises(ConfigError, match="only nemo-gym"):
        verifying.verify_file(rows, compat="other")
    with pytest.raises(DataError, match="no such file"):
        verifying.verify_file(tmp_path / "none.jsonl")


def test_it_needs_no_torch_to_start() -> None:
    heavy = "{'torch', 'transformers', 'mlflow', 'prefect', 'pandas'}"
    code = f"import sys, flows.cli, flows.verifying; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
