"""Terminal turns: read strictly, compared in their normal form, and by what they do where a workspace is at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotrl_core.errors import SandboxUnavailableError
from pivotrl_core.types import Action, Candidate, Json, Message, Role, ToolCall
from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.graded import GradedVerifier
from pivotrl_core.verifiers.rows import verify_row
from pivotrl_core.verifiers.terminal import TerminalGrader, TerminalSettings
from pivotrl_core.verifiers.verdict_cache import VerdictCache
from pivotrl_core.verifiers.volatile import RunTime, without_durations, without_volatile

needs_sandbox = pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")


def terminus_1(*keystrokes: str, complete: bool = False, **other: Json) -> str:
    commands = [{"keystrokes": keys, "is_blocking": True, "timeout_sec": 1} for keys in keystrokes]
    answer = {"state_analysis": "s", "explanation": "e", "commands": commands, "is_task_complete": complete}
    return json.dumps({**answer, **other})


def terminus_2(*keystrokes: str, **other: Json) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": [{"keystrokes": k} for k in keystrokes], **other})


def candidate(expert: str, harness: str | None = None, workspace: Json = None) -> Candidate:
    row: dict[str, Any] = {"metadata": {"harness": harness}} if harness else {}
    if workspace is not None:
        row["workspace"] = workspace
    state = (Message(Role.USER, "do it"),)
    return Candidate(state, (), Message(Role.ASSISTANT, expert), "t", 0, "terminal", metadata={"nemo_row": row})


def verdict(
    expert: str, answer: str, harness: str | None = None, grader: TerminalGrader | None = None
) -> tuple[float, str]:
    found = GradedVerifier(grader or TerminalGrader()).verify(candidate(expert, harness), Action(answer, text=answer))
    return found.reward, found.reason


@pytest.mark.parametrize(("harness", "write"), [("terminus_1", terminus_1), ("terminus_2", terminus_2)])
def test_both_harnesses_are_read_with_and_without_being_named(harness: str, write: Any) -> None:
    for name in (harness, None):
        assert verdict(write("ls -la\n"), f"thinking</think>  {write('ls -al', chr(10))} ", name) == (1.0, "accepted")
        assert verdict(write("ls -la\n"), write("ls\n"), name) == (0.0, "commands_differ")
        assert verdict(write(), write(), name) == (1.0, "accepted")
        assert verdict(write("ls\n"), write(), name) == (0.0, "commands_differ")
        assert verdict(write("ls\n"), write("ls"), name) == (0.0, "commands_differ"), "typed, but not entered"


@pytest.mark.parametrize("answer", [
    "true", "42", '"str"', "[]", "prose", "", "null", "```json\n" + terminus_1("ls\n") + "\n```",
    terminus_1("ls\n") + " done", terminus_1("ls\n", extra=1), terminus_2("ls\n"),
    terminus_1("ls\n").replace("true", "1"), terminus_1("ls\n").replace('"timeout_sec": 1', '"timeout_sec": true'),
    terminus_1("ls\n").replace('"explanation": "e", ', ""), terminus_1("ls\n", commands=[["ls"]]),
    terminus_1("ls\n", commands={"keystrokes": "ls\n"}), terminus_1("ls\n", is_task_complete="false"),
    terminus_1("ls\n")[:-1], "[" * 100_000, terminus_1("x" * 300_000), "\ud800",
    terminus_1("ls\n").replace("1}", "NaN}"),
])  # fmt: skip
def test_an_answer_that_does_not_keep_to_the_form_is_malformed(answer: str) -> None:
    assert verdict(terminus_1("ls\n"), answer, "terminus_1") == (0.0, "malformed")


def test_a_tool_call_is_no_answer_to_a_harness_that_wants_json() -> None:
    action = Action(tool_calls=(ToolCall("bash", '{"command": "ls"}'),))
    assert GradedVerifier(TerminalGrader()).verify(candidate(terminus_1("ls\n")), action).reason == "malformed"


def test_mistakes_about_completion_are_named_on_both_sides() -> None:
    done, going_on = terminus_1("ls\n", complete=True), terminus_1("ls\n")
    assert verdict(done, done) == (1.0, "accepted")
    assert verdict(done, going_on) == (0.0, "completion_missing")
    assert verdict(going_on, done) == (1.0, "accepted")
    assert verdict(going_on, done, grader=TerminalGrader(TerminalSettings(refuse_early=True))) == (
        0.0,
        "completion_early",
    )
    components = TerminalGrader().grade(candidate(going_on), Action(done))
    assert components["complete"] == "early"
    assert verdict(terminus_2("ls\n", task_complete=True), terminus_2("ls\n")) == (0.0, "completion_missing")
    assert verdict(terminus_2("ls\n"), terminus_2("ls\n", task_complete=False)) == (1.0, "accepted")


def test_plain_bash_is_text_or_one_block_or_a_call() -> None:
    assert verdict("ls -la", "```bash\nls -al\n```", "bash") == (1.0, "accepted")
    assert verdict("ls -la", "First\n```\nls -a\n```\n```\nls\n```", "bash") == (0.0, "malformed")
    assert verdict("ls", " ", "bash") == (0.0, "malformed")
    expert = Message(Role.ASSISTANT, tool_calls=(ToolCall("bash", '{"command": "ls -la", "timeout": 3}'),))
    at = Candidate((), (), expert, "t", 0, "terminal")
    for call, reason in (
        (ToolCall("bash", '{"command": "ls -al"}'), "accepted"),
        (ToolCall("python", '{"command": "ls -al"}'), "tool_differs"),
        (ToolCall("bash", '{"command": "ls -al", "cwd": "/x"}'), "tool_differs"),
        (ToolCall("bash", '{"restart": true}'), "malformed"),
        (ToolCall("bash", '{"command": '), "malformed"),
    ):
        assert GradedVerifier(TerminalGrader()).verify(at, Action(tool_calls=(call,))).reason == reason, call


def test_what_the_expert_said_may_be_unreadable_and_the_harness_unknown() -> None:
    assert verdict("{", terminus_1(), "terminus_1") == (0.0, "expected_unreadable")
    assert verdict(terminus_1(), terminus_1(), "terminus_9") == (0.0, "expected_unreadable")


def test_similarity_is_symmetric_and_accepts_only_above_a_threshold_that_is_set() -> None:
    one, other = terminus_1("python3 test_1.py --verbose\n"), terminus_1("python3 test_2.py --verbose\n")
    first, second = (TerminalGrader().grade(candidate(a), Action(b)) for a, b in ((one, other), (other, one)))
    assert first["similarity"] == second["similarity"] > 0.9
    assert not first["executed"]
    assert verdict(one, other) == (0.0, "commands_differ")
    assert verdict(one, other, grader=TerminalGrader(TerminalSettings(similarity_threshold=0.9))) == (1.0, "accepted")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "ws/src").mkdir(parents=True)
    (folder / "ws/a.txt").write_text("hello\nworld\n")
    (folder / "ws/times.log").write_text("b 0.05s\na 0.01s\n")
    (folder / "ws/src/f.py").write_text("print(1)\n")
    (folder / "out").symlink_to("/etc")
    (folder / "bad.tar").write_bytes(b"no archive")
    return folder


EXECUTED = [
    ("cat a.txt", "head -n 9 a.txt", "same_effect"),
    ("cat a.txt", "head -n 1 a.txt", "effect_differs"),
    ("mkdir -p x", "mkdir x", "same_effect"),
    ("mkdir x", "mkdir y", "effect_differs"),
    ("echo hi > b", "printf 'hi\\n' > b", "same_effect"),
    ("rm a.txt", "rm -f ./a.txt", "same_effect"),
    ("rm a.txt", "echo > a.txt", "effect_differs"),
    ("chmod +x a.txt", "chmod 755 a.txt", "same_effect"),
    ("sed -i 's/0.05s/0.02s/' times.log", "sed -i 's/0.05s/0.09s/' times.log", "effect_differs"),
    ("sort times.log | head -1 | cut -d' ' -f2", "sort times.log | tail -1 | cut -d' ' -f2", "effect_differs"),
    ("echo 9.5s", "echo 8.5s", "effect_differs"),
    ("time true", "time  true; true", "same_effect"),
    ("chmod 600 a.txt && echo ok", "chmod 644 a.txt && echo ok", "effect_differs"),
    ("tar cf /tmp/x.tar a.txt && echo done", "echo done", "effect_differs"),
    ("cat a.txt > /dev/shm/x; echo $?", "echo 0", "effect_differs"),
    ("cat a.txt", "cat a.txt; touch /tmp/beside", "same_effect"),
    ("cp a.txt /tmp/x; echo 1", "cat a.txt > /tmp/x; echo 1", "same_effect"),
    ("cat a.txt > $(mktemp); echo 1", "cp --no-preserve=mode a.txt $(mktemp); echo 1", "same_effect"),
    ("ln -s a.txt l", "cp a.txt l", "effect_differs"),
    ("ls -la", "ls -la; touch q", "effect_differs"),
    ("cd src", "cd ./src", "same_effect"),
    ("cd src", "cd ..", "effect_differs"),
    ("export A=1", "A=1; export A", "same_effect"),
    ("export A=1", "export A=2", "effect_differs"),
    ("date", "date -u", "same_effect"),
    ("date", "date +%s", "effect_differs"),
    ("cat a.txt", "cat a.txt; ulimit -n 5", "effect_differs"),
    ("test -f a.txt", "test -f zzz", "effect_untold"),  # nothing shown, nothing changed
    ("no_such_tool a", "no_such_tool  b", "effect_untold"),
    ("python3 -c 'import random; print(random.random())'", "echo 1", "effect_untold"),
    ("sleep 9 &", "sleep 8 &", "effect_untold"),
    ("(sleep 9 &); cat a.txt", "(sleep 8 &); cat a.txt", "effect_untold"),
    ("cat a.txt", "cat a.txt; exit 3", "effect_differs"),
    ("cat a.txt", "kill -9 $$", "effect_differs"),
]


@needs_sandbox
@pytest.mark.parametrize(("expert", "answer", "reason"), EXECUTED)
def test_commands_are_compared_by_what_they_do(rows: Path, expert: str, answer: str, reason: str) -> None:
    grader = TerminalGrader(workspaces=rows)
    found = GradedVerifier(grader).verify(candidate(expert, "bash", "ws"), Action(answer))
    assert (found.reason, found.reward) == (reason, float(reason == "same_effect"))
    assert found.components["executed"]
    assert sorted(path.name for path in (rows / "ws").rglob("*")) == ["a.txt", "f.py", "src", "times.log"], "unchanged"


@needs_sandbox
def test_what_a_workspace_holds_can_be_read_back_whatever_the_limits_are(rows: Path) -> None:
    grader = TerminalGrader(TerminalSettings(limits=sandbox.SandboxLimits(result_bytes=4, result_files=1)), rows)
    found = GradedVerifier(grader).verify(candidate("cat a.txt", "bash", "ws"), Action("head a.txt"))
    assert found.reason == "same_effect"


@needs_sandbox
def test_equal_commands_and_keys_that_are_no_script_are_not_executed(rows: Path) -> None:
    grader = TerminalGrader(workspaces=rows)
    for expert, answer, reason in (
        ("ls -la\n", "ls -al\n", "accepted"), ("C-c", "C-d", "commands_differ"), ("ls\n", "ls -a", "commands_differ"),
        ("ls\n", "\x1b:wq\n", "commands_differ"), ("ls\n", "a\0b\n", "commands_differ"),
    ):  # fmt: skip
        found = GradedVerifier(grader).verify(
            candidate(terminus_1(expert), "terminus_1", "ws"), Action(terminus_1(answer))
        )
        assert found.reason == reason
        assert found.components["executed"] is False


@needs_sandbox
@pytest.mark.parametrize("named", ["../ws", "/etc", "out", "missing", "bad.tar", "", 7])
def test_a_workspace_that_leads_out_or_cannot_be_read_is_named_and_nothing_runs(rows: Path, named: Json) -> None:
    grader = TerminalGrader(workspaces=rows)
    found = GradedVerifier(grader).verify(candidate("cat a.txt", "bash", named), Action("head a.txt"))
    assert (found.reward, found.reason) == (0.0, "workspace_unreadable")
    assert found.components["executed"] is False


@needs_sandbox
def test_a_row_of_a_file_finds_its_workspace_beside_the_file(rows: Path) -> None:
    def row(answer: str) -> dict[str, Json]:
        return {
            "responses_create_params": {"input": [{"role": "user", "content": "show a.txt"}], "tools": []},
            "expected_answer": terminus_1("cat a.txt\n"), "metadata": {"harness": "terminus_1"}, "workspace": "ws",
            "response": terminus_1(answer),
        }  # fmt: skip

    assert verify_row(row("head -n 2 a.txt\n"), workspaces=rows)["reward"] == 1.0
    refused = verify_row(row("head -n 1 a.txt\n"), workspaces=rows)
    assert (refused["reward"], refused["reason"]) == (0.0, "effect_differs")
    unexecuted = verify_row(row("head -n 2 a.txt\n"))
    assert (unexecuted["reward"], unexecuted["components"]["executed"]) == (0.0, False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows beside a workspace with enough in it that a copy of it can be other."""
    folder = tmp_path_factory.mktemp("log")
    (folder / "ws/logs").mkdir(parents=True)
    (folder / "ws/app.log").write_text("".join(f"{n} ERROR in part {n % 3}\n" for n in range(10, 15)))
    for name in ("one.txt", "two.txt", "three.txt"):
        (folder / "ws/logs" / name).write_text("ERROR\n")
    return folder


BY_CHANCE = [
    ("grep ERROR app.log", "grep -i ERROR app.log", "by chance"),
    ("head -n 5 app.log", "cat app.log", "by chance"),
    ("sort app.log", "sort -n app.log", "by chance"),
    ("sort app.log | uniq -c", "uniq -c app.log", "by chance"),
    ("ls logs/*.txt", "ls logs/*", "by chance"),
    ("head -n 5 app.log", "head -n 4 app.log", "differs"),
    ("head -n 5 app.log", "sed 5q app.log", "same"),
    # A file that is left in /tmp beside does no harm, one that is missing or has other contents does.
    ("sort app.log | uniq -c", "sort app.log > /tmp/s; uniq -c /tmp/s", "same"),
    ("sort app.log > /tmp/s; uniq -c /tmp/s", "sort app.log | uniq -c", "differs"),
    ("sort app.log > /tmp/s; uniq -c /tmp/s", "sort app.log | tee /dev/shm/s | uniq -c", "differs"),
    # Which file comes first is where they were made, not what was asked.
    ("grep -r ERROR logs", "grep ERROR logs/*", "by chance"),
    ("grep -r ERROR logs", "find logs -type f | sort | xargs grep -H ERROR", "same"),
    ("find logs -type f | sort", "find logs -type f | sort -r", "differs"),
    ("find . -name '*.txt'", "find logs -name '*.txt'", "same"),
    ("find logs -type f | sort", "find /box/logs -type f | sort", "same"),
    ("find logs > list", "find ./logs > list", "differs"),
    # A variable that is left beside does no harm, one that is missing or means something to the shell does.
    ("cat app.log", "f=app.log; cat $f", "same"),
    ("f=app.log; cat $f", "cat app.log", "differs"),
    ("cat app.log", "export f=app.log; cat $f", "differs"),
    ("cat app.log", "IFS=,; cat app.log", "differs"),
    ("sed -i 's/ERROR/OK/' app.log", "sed -i 's/ERROR/OK/g' app.log", "by chance"),
    ("ln -s logs l", "ln -s ./logs/ l", "same"),
    ("ln -s logs l", "ln -s /box/logs l", "differs"),
    ("git init -q; git add app.log", "git init -q; git add app.log logs", "differs"),
    ("git init -q; git add app.log", "git init -q && git add -- ./app.log", "same"),
]


@needs_sandbox
@pytest.mark.parametrize(("expert", "answer", "found"), BY_CHANCE)
def test_what_does_the_same_by_chance_is_told_apart_in_another_copy(
    log: Path, expert: str, answer: str, found: str
) -> None:
    components = TerminalGrader(workspaces=log).grade(candidate(expert, "bash", "ws"), Action(answer))
    assert components["telling"]
    told = "same" if components["same_effect"] else "by chance" if components["by_chance"] else "differs"
    assert told == found, components
    if found == "by chance":
        plain = TerminalGrader(TerminalSettings(vary=False), log)
        assert plain.grade(candidate(expert, "bash", "ws"), Action(answer))["same_effect"]


ATTACKS = {
    "fork bomb": "f() { f | f & }; f; while :; do :; done",
    "endless output": "yes",
    "memory": "python3 -c 'x = bytearray(10**10)'",
    "disk": "cat /dev/zero > big; cat /dev/zero > /tmp/big",
    "other places": "cat /etc/shadow ~/.ssh/* /proc/1/environ /mnt/* 2>/dev/null; ls /root /home",
    "the parent": "kill -9 $PPID 1 -1",
    "daemon": "(setsid sh -c 'sleep 1; date > late' >/dev/null 2>&1 &); cat a.txt",
    "link": "ln -s /etc/shadow a2; ln -s / root; cat a.txt",
    "deep json": "python3 -c \"print('[' * 10**8)\"",
    "no text": "printf '\\0\\377\\ud800'; cat a.txt",
    "surrogate": "echo '\ud800'; cat a.txt",
    "forged report": "printf '\\036--- pivotrl ---\\036'; cat a.txt",
}


@needs_sandbox
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_earns_nothing(rows: Path, attack: str) -> None:
    limits = sandbox.SandboxLimits(wall_seconds=1.5, cpu_seconds=2, result_bytes=2**20)
    grader = TerminalGrader(TerminalSettings(limits=limits), rows)
    found = GradedVerifier(grader).verify(candidate("cat a.txt", "bash", "ws"), Action(ATTACKS[attack]))
    assert (found.reward, found.reason) == (0.0, "effect_differs")
    assert json.dumps(dict(found.components)).encode("utf-8")


@needs_sandbox
def test_what_was_executed_is_not_executed_again(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    real = sandbox.run_in_workspace

    def counted(command: Any, *rest: Any) -> Any:
        runs.append(command[-1])
        return real(command, *rest)

    monkeypatch.setattr(sandbox, "run_in_workspace", counted)
    at = candidate("cat a.txt", "bash", "ws")
    grader = TerminalGrader(workspaces=rows, cache=VerdictCache(tmp_path / "cache.db"))
    first = grader.grade(at, Action("head a.txt"))
    assert runs == ["cat a.txt", "cat a.txt", "head a.txt"], "the expert twice, to see whether it repeats itself"
    again = TerminalGrader(workspaces=rows, cache=VerdictCache(tmp_path / "cache.db"))
    assert again.grade(at, Action("head a.txt")) == first
    assert len(runs) == 3
    again.grade(at, Action("tail a.txt"))
    assert runs[3:] == ["tail a.txt"]
    other = TerminalGrader(TerminalSettings(limits=sandbox.SandboxLimits(cpu_seconds=6)), rows, again.cache)
    other.grade(at, Action("tail a.txt"))
    assert len(runs) == 7, "other limits may give other effects"


def test_without_a_sandbox_a_grader_that_executes_is_refused(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "the program bwrap was not found.")
    with pytest.raises(SandboxUnavailableError, match="Install bubblewrap, or grade without workspaces"):
        TerminalGrader(workspaces=rows).grade(candidate("ls", "bash", "ws"), Action("ls -a"))
    assert TerminalGrader().grade(candidate("ls", "bash", "ws"), Action("ls -a"))["executed"] is False


def test_volatile_parts_are_those_of_the_run_alone() -> None:
    time = RunTime(start=1_796_149_260.0, end=1_796_149_262.0)  # 2026-12-01 18:21:00 UTC
    for text, expected in (
        ("made 2026-12-01T18:21:01.5Z", "made <now 0-0-0a0:0:0.0a>"),
        ("-rw 1 Dec  1 18:21 a", "-rw 1 <now a 0 0:0> a"),
        ("Tue Dec  1 18:21:01 UTC 2026", "<now a a 0 0:0:0 a 0>"),
        ("at 1796149261", "at <now 0>"),
        ("day 2026-12-01", "day <today>"),
        ("2025-12-01 18:21 and 1700000000 and Nov  1 18:21", "2025-12-01 18:21 and 1700000000 and Nov  1 18:21"),
        ("3 passed in 0.12s, /tmp/tmp.Ab12Cd34Ef", "3 passed in 0.12s, <temporary>"),
        ("<f at 0x7f0011223344> is 0x10", "<f at <address>> is 0x10"),
        ("bash: line 3: x: command not found", "bash: x: command not found"),
    ):
        assert without_volatile(text, time) == expected
    said = "0.12s, 0m0.04s and 250.5 ms of 1.5s, 1m0.2s and 0.31 seconds"
    kept = without_durations(said, RunTime(start=0.0, end=1.4), lambda text: text == "0.31 seconds")
    assert kept == "<duration>, <duration> and <duration> of 1.5s, 1m0.2s and 0.31 seconds"
