"""A recorded run is executed again from a fresh clone, and what differs is said by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.launch import pull_here
from flows.reproduce import NotReproducedError, reproduce
from flows.request import Request
from tasks.dvc_lock import LOCK_NAME
from tasks.records import find_record
from tasks.repository import RUN_REFS, Repository

from .conftest import git, pull_text
from .test_run_flow import _flow

pytestmark = pytest.mark.usefixtures("prefect_server")


REQUEST = Request()


@pytest.fixture
def recorded(checkout: Path) -> Path:
    """A checkout with the recorded run `run-1`, made with uncommitted code."""
    program = checkout / "program.py"
    program.write_text(program.read_text().replace("weights of {", "new weights of {"))
    _flow("run", pull=lambda session: pull_text(session.root, a="one two"))(checkout, "run-1", Request())
    return checkout


def _clone(recorded: Path, place: Path) -> Path:
    git(place, "clone", "-q", str(recorded), "clone")
    return place / "clone"


def _tamper(recorded: Path, files: dict[str, tuple[str, str]]) -> None:
    """Write a record that says something else."""
    repository = Repository(recorded)
    record = find_record(recorded, "run-1")
    changed = {name: (record.text(name) or "").replace(*pair).encode() for name, pair in files.items()}
    commit = repository.write_commit(changed, "tampered\n", record.commit)
    repository.set_ref(f"{RUN_REFS}run-1", commit)


def test_a_nightly_that_trained_from_the_last_good_model_is_reproduced_from_a_fresh_clone(
    checkout: Path, tmp_path: Path
) -> None:
    program = checkout / "program.py"
    program.write_text(program.read_text() + "# changed, not committed\n")
    nights = [
        _night(checkout, "night-1", a="one"),
        _night(checkout, "night-2", a="one", b="two"),
    ]
    # The second night pulls into what the first one left, and trains from its good model: sft has none.
    assert (nights[0].executed, nights[1].executed) == (5, 4)
    lock = find_record(checkout, "night-2").lock()
    assert lock["train@pivotrl-0"].command == "python program.py train pivotrl-0 last-good/pivotrl-0"
    assert lock["train@sft-0"].command == "python program.py train sft-0 models/base"
    # A third night without new data has nothing to do; new data again, and training goes on from the newest good model.
    assert _night(checkout, "night-3", a="one", b="two").executed == 0
    fourth = _night(checkout, "night-4", a="one", b="two", c="three")
    assert fourth.executed == 4
    assert find_record(checkout, "night-4").lock()["train@pivotrl-0"].command.endswith("last-good/pivotrl-0")
    assert not (checkout / "dvc.lock").exists()
    clone = _clone(checkout, tmp_path)
    result = reproduce(name="night-2", checkout=str(clone))
    assert result["text"].endswith("5 stages executed again: equal")
    assert result["executed"] == 5
    assert git(clone, "status", "--porcelain") == ""
    assert list((clone / ".state" / "worktrees").iterdir()) == []


def test_a_quick_night_leaves_nothing_that_real_ones_would_go_on_from(checkout: Path) -> None:
    assert _night(checkout, "night-1", Request(quick=True), a="one").executed == 5
    assert not (checkout / ".state" / "nightly").exists()
    _night(checkout, "night-2", a="one")
    kept = checkout / ".state" / "nightly"
    assert (kept / LOCK_NAME).exists()
    _night(checkout, "night-3", a="one", b="two")
    files = {path: path.read_text() for path in kept.rglob("*") if path.is_file()}
    _night(checkout, "night-4", Request(quick=True), a="one", b="two", c="three")
    assert {path: path.read_text() for path in kept.rglob("*") if path.is_file()} == files


def test_a_night_after_a_pruning_pull_drops_what_is_gone_from_the_source(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, params, source = checkout / "program.py", checkout / "params.yaml", checkout / "in"
    program.write_text(
        program.read_text().replace('out("data/pulled").iterdir()', 'out("data/pulled/train").iterdir()')
    )
    params.write_text(f"source: {{kind: folder, path: in}}\n{params.read_text()}")
    git(checkout, "commit", "-qam", "from a folder")
    source.mkdir()
    for name in ("a", "b"):
        (source / f"{name}.jsonl").write_text(f'{{"name": "{name}"}}\n')
    _night(checkout, "night-1")
    (source / "b.jsonl").unlink()
    _night(checkout, "night-2")
    kept = checkout / ".state/nightly"
    assert sorted(path.name[0] for path in (kept / "data/pulled/train").iterdir()) == ["a", "b"]  # it stays in use
    monkeypatch.chdir(checkout)
    pull_here(prune=True)
    assert _night(checkout, "night-3").executed == 4
    assert [path.name[0] for path in (kept / "data/pulled/train").iterdir()] == ["a"]
    assert find_record(checkout, "night-3").lock()["train@pivotrl-0"].command.endswith("last-good/pivotrl-0")
    assert not (kept / "prune").exists()


def _night(checkout: Path, run_id: str, request: Request = REQUEST, **files: str) -> Any:
    from prefect import flow

    from flows.nightly import carry_out_nightly

    @flow(name="nightly", persist_result=False, validate_parameters=False)
    def body() -> Any:
        if not files:  # from the source
            return carry_out_nightly(checkout, request, run_id, tracked=False)
        return carry_out_nightly(
            checkout, request, run_id, pull=lambda session: pull_text(session.root, **files), tracked=False
        )

    return body()


def test_a_changed_metric_output_or_parameter_is_named_and_told_once(
    recorded: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = find_record(recorded, "run-1")
    weights = record.lock()["train@sft-0"].outs["models/sft/0"]
    files: dict[str, Any] = {
        "reports/train/sft-0/report.json": ("1.0", "0.9"),
        LOCK_NAME: (weights, "0" * 32 + ".dir"),
        "params.yaml": ("samples: 8", "samples: 4"),
    }
    _tamper(recorded, files)
    with pytest.raises(NotReproducedError) as caught:
        reproduce(name="run-1", checkout=str(_clone(recorded, tmp_path)))
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert "value reports/train/sft-0/report.json metrics.train/reward_mean: recorded 0.9, now 1.0" in lines
    assert f"output models/sft/0 of train@sft-0: recorded {'0' * 32}.dir, now {weights}" in lines
    assert "parameter params.yaml:profile.samples of train@sft-0: recorded 8, now 4" in lines
    assert "note: the parameters are not those of the record" in lines
    assert caught.value.exit_code == 1
    told = [record.getMessage() for record in caplog.records if record.name == "tasks.notify"]
    assert len(told) == 1
    assert str(caught.value) in told[0]
