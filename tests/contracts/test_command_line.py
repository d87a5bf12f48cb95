"""The command line is light until a command needs something, and its errors are messages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("prefect", "mlflow", "torch", "dvc", "pandas", "numpy", "transformers", "pydantic", "boto3")


def _pivotrl(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", **variables}
    command = [sys.executable, "-m", "flows.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_command_line_imports_nothing_heavy() -> None:
    program = f"import sys, flows.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_every_command_has_an_example_in_its_help() -> None:
    listed = "bench inspect run sweep nightly stage pull graph compare export verify reverify serve-verifier reproduce"
    names = [*listed.split(), "serve", "ui", "doctor", "gc"]
    listing = _pivotrl("--help").stdout
    assert all(f"  {name} " in listing for name in names)
    from typer.main import get_command

    from flows.cli import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(names)
    assert [name for name, one in commands.items() if f"Example: pivotrl {name}" not in (one.help or "")] == []


def test_an_error_of_ours_is_one_message_and_its_exit_code(tmp_path: Path) -> None:
    answer = _pivotrl("run", cwd=tmp_path)
    assert answer.returncode == 78
    assert (
        answer.stderr
        == f"error: {tmp_path}: no dvc.yaml and params.yaml here or above; run inside a checkout of the project\n"
    )
    answer = _pivotrl("inspect", "no-such-file.jsonl")
    assert (answer.returncode, answer.stderr) == (65, "error: no-such-file.jsonl: no such file or folder\n")


def test_a_wrong_override_is_refused_before_anything_starts() -> None:
    answer = _pivotrl("run", "--set", "profile.sampels=4")
    assert answer.returncode == 78
    assert "did you mean 'samples'?" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_what_nobody_foresaw_is_not_told_as_a_reproduction_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows import launch
    from flows.cli import main

    for error, told in ((OSError(28, "No space left on device", "x"), "error: [Errno 28]"), (ValueError("odd"), "odd")):

        def fail(*_: str, error: Exception = error) -> str:
            raise error

        monkeypatch.setattr(launch, "compare_names", fail)
        with pytest.raises(SystemExit) as caught:
            main(["compare", "a", "b"])
        assert caught.value.code == 70
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "both", "code"),
    [
        (("--help",), False, 141),
        (("verify", "no-such-file"), True, 65),
        (("inspect",), True, 141),
    ],
    ids=["help", "an error of ours", "wrong usage"],
)
def test_output_that_nobody_reads_is_not_told_as_a_reproduction_that_differs(
    arguments: tuple[str, ...], both: bool, code: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "flows.cli", *arguments]
    answer = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=writer if both else subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (answer.returncode, answer.stderr or "") == (code, "")


def test_what_a_command_left_unwritten_has_no_reader_either() -> None:
    """As `verify` writes its lines: without a flush, so that the interpreter would find the pipe broken."""
    reader, writer = os.pipe()
    os.close(reader)
    program = "import flows.cli\nflows.cli.app = lambda *_, **__: (print('a line'), exit(0))\nflows.cli.main([])"
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (141, "")


def test_a_pipe_that_is_not_ours_is_an_error_with_its_message() -> None:
    program = "import flows.cli\ndef broken(*_, **__): raise BrokenPipeError(32, 'Broken pipe')\n"
    command = [sys.executable, "-c", f"{program}flows.cli.app = broken\nflows.cli.main([])"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (70, "error: [Errno 32] Broken pipe\n")


def test_a_prefect_server_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    there = {"PREFECT_API_URL": "http://127.0.0.1:9/api", "PIVOTRL_STATE": str(tmp_path)}
    for arguments, code, told in (
        (("run", "--quick"), 75, "PREFECT_API_URL"),
        (("serve",), 75, "PREFECT_API_URL"),
        (("serve", "--cron", "nonsense"), 78, "--cron 'nonsense'"),
        (("serve", "--timezone", "Mars/Base"), 78, "--timezone 'Mars/Base'"),
    ):
        answer = _pivotrl(*arguments, **there)
        assert (answer.returncode, told in answer.stderr) == (code, True)
        assert "Traceback" not in answer.stderr
    line = next(line for line in _pivotrl("doctor", **there).stdout.splitlines() if "Prefect:" in line)
    assert line.startswith("FAIL  Prefect: no Prefect server answers at http://127.0.0.1:9/api")


def test_a_port_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    answer = _pivotrl("ui", "--port", "70000", cwd=tmp_path)
    assert answer.returncode == 2
    assert "--port" in answer.stderr


def test_numbers_that_are_none_are_wrong_usage(tmp_path: Path) -> None:
    for option, text in (("--lambdas", "0.4,high"), ("--seeds", "0,one")):
        answer = _pivotrl("sweep", option, text, cwd=tmp_path)
        assert answer.returncode == 2
        assert option in answer.stderr
        assert text in answer.stderr


def test_the_ui_of_a_tracking_server_is_that_server(tmp_path: Path) -> None:
    uri = "http://someone:hid-den@127.0.0.1:5999"
    answer = _pivotrl("ui", PIVOTRL_STATE=str(tmp_path), MLFLOW_TRACKING_URI=uri)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "http://127.0.0.1:5999 " in answer.stdout
    assert "hid-den" not in answer.stdout


def test_the_ui_gets_the_address_of_a_database_where_ps_does_not_show_it(tmp_path: Path) -> None:
    program = (
        "import os, flows.launch\n"
        "os.execve = lambda _, command, environment: print(command, environment['MLFLOW_BACKEND_STORE_URI'], sep='|')\n"
        "flows.launch.open_ui(5001)"
    )
    uri = "postgresql://someone:hid-den@127.0.0.1/mlflow"
    ours = {"PYTHONPATH": str(ROOT), "PIVOTRL_STATE": str(tmp_path), "MLFLOW_TRACKING_URI": uri}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **ours},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    command, address = answer.stdout.splitlines()[-1].split("|")
    assert "hid-den" not in command
    assert address == uri


def test_a_ui_on_a_port_that_is_taken_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = _pivotrl("ui", "--port", str(port), PIVOTRL_STATE=str(tmp_path))
    assert answer.returncode == 78
    assert f"port {port} of 127.0.0.1 cannot be used" in answer.stderr
    assert "--port" in answer.stderr


def test_mlflow_reads_the_address_of_its_store_from_the_variable_that_we_set() -> None:
    from tasks.tracking.database import STORE_VARIABLE

    program = "from mlflow.cli import cli; print({o.name: o.envvar for o in cli.commands['server'].params})"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"'backend_store_uri': '{STORE_VARIABLE}'" in answer.stdout


def test_doctor_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.doctor import examination_text, examine

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://someone:hid@den@127.0.0.1/mlflow")
    text = examination_text(examine())
    assert "MLflow: postgresql://127.0.0.1/mlflow" in text
    assert "someone" not in text


def test_doctor_looks_at_the_disk_of_dvc_s_cache_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flows import doctor

    usage, elsewhere = shutil.disk_usage(tmp_path), Path("/proc")  # another file system
    monkeypatch.setattr(doctor, "dvc_cache", lambda _: elsewhere / "cache/not/made/yet")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=(1 if place == elsewhere else 9) << 30))
    lines = [line for line in doctor.examination_text(doctor.examine()).splitlines() if "  disk" in line]
    assert lines[0].startswith("ok    disk: 9 GiB free at ")
    assert lines[1] == ("FAIL  disk of DVC's cache: 1 GiB free at /proc  ->  make 5 GiB free, or dvc cache dir PATH")


def test_a_relative_state_folder_is_one_folder_wherever_it_is_read(tmp_path: Path) -> None:
    for name in ("dvc.yaml", "params.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "docs").mkdir()
    program = (
        "import flows.launch, tasks.settings\n"
        "root, state = flows.launch._prepare()\n"
        "print(state.root, tasks.settings.find_state(root).root)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PIVOTRL_STATE": "mystate"}
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, cwd=tmp_path / "docs", env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [str(tmp_path / "docs/mystate")] * 2


def test_doctor_says_whether_vllm_is_usable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flows.doctor import examination_text, examine

    def line() -> str:
        return next(line for line in examination_text(examine()).splitlines() if "vLLM" in line)

    monkeypatch.setenv("PIVOTRL_VLLM", str(tmp_path))
    assert line() == f"note  vLLM: engine.environment: no Python environment in {tmp_path}  ->  make vllm"
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)  # a real interpreter, without vLLM
    assert line() == f"note  vLLM: not in the environment of {python}  ->  make vllm"
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").touch()
    python.unlink()
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert line() == f"ok    vLLM: installed ({python})"


def test_doctor_tells_of_a_sandbox_that_is_installed_and_cannot_start(tmp_path: Path) -> None:
    """As in a container that may not make user namespaces: evaluation would skip two benchmarks."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    answer = _pivotrl("doctor", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    line = next(line for line in answer.stdout.splitlines() if "sandbox" in line)
    assert line.startswith("note  sandbox: a probe failed (The sandbox did not start: bwrap: No permissions")
    assert "allow user namespaces; without it" in line


def test_every_benchmark_has_an_example_and_says_what_is_wrong(tmp_path: Path) -> None:
    for name in ("train", "profile", "curtail", "iterate", "verify", "pairs", "gpu"):
        words = _pivotrl("bench", name, "--help").stdout.split()
        assert f"Example: pivotrl bench {name}" in " ".join(words)
    wrong = {"--groups": ("train", "4,many"), "--dtype": ("train", "float16"), "--micro-batch": ("iterate", "3")}
    wrong |= {"--shape": ("profile", "qwen9"), "--device": ("curtail", "abacus")}
    wrong |= {"--domain": ("pairs", "cooking"), "--part": ("pairs", "half")}
    for option, (name, text) in wrong.items():
        answer = _pivotrl("bench", name, option, text)
        assert (answer.returncode, option in answer.stderr) == (2, True)
    answer = _pivotrl("bench", "train", "--model", str(tmp_path))
    assert answer.returncode == 78
    assert answer.stderr.startswith(f"error: {tmp_path}: no Hugging Face model here")


def test_benchmarks_of_a_gpu_say_that_there_is_none(tmp_path: Path) -> None:
    answer = _pivotrl("bench", "gpu", "--out", str(tmp_path / "out"), CUDA_VISIBLE_DEVICES="")
    assert answer.returncode == 78
    assert "finds no GPU here" in answer.stderr
    assert "--dry-run" in answer.stderr
    assert not (tmp_path / "out").exists()
