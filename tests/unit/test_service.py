"""The service of verdicts: every reply answers its own request, and the verdicts are those of this process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows import grading
from pivotrl_core.config.service import ServiceConfig
from pivotrl_core.config.tree import Config
from pivotrl_core.environments.recording import iter_trajectories
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError, EngineError, TemporaryError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.service.app import make_app
from pivotrl_core.service.client import ServiceVerifier
from pivotrl_core.service.pool import Graders
from pivotrl_core.service.queue_limits import QueueLimits
from pivotrl_core.service.wire import encode, question, read_question
from pivotrl_core.service.work import BUSY, GradingWorker, Job, WorkerSettings
from pivotrl_core.stages.context import Places
from pivotrl_core.stages.verification import configured_verifier, verifier_here
from pivotrl_core.types import Action, Candidate, Message, Role, Split, Tool, ToolCall
from pivotrl_core.verifiers.row_fields import Grounds
from pivotrl_core.verifiers.rows import verify_row
from tests.completions_server import CompletionsServer
from tests.service_thread import service

CONFIG = Config.model_validate({"arms": {"base": {}}})
TOKEN = "not-for-logs"
CLIENTS = 64


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    place = tmp_path_factory.mktemp("service")
    return Places(place, place)


@pytest.fixture(scope="module")
def worker_settings(places: Places) -> WorkerSettings:
    return grading.worker_settings(CONFIG, places, grading.Rows())


@pytest.fixture(scope="module")
def narrow(worker_settings: WorkerSettings) -> Iterator[str]:
    """A service that has room for one request, and asks for a token."""
    with service(worker_settings, limits=QueueLimits(requests=1), token=TOKEN) as address:
        yield address


@pytest.fixture(scope="module")
def url(worker_settings: WorkerSettings) -> Iterator[str]:
    with service(worker_settings, processes=2, limits=QueueLimits(requests=CLIENTS, body_bytes=1 << 20)) as address:
        yield address


def row(number: int, expected: int | None = None) -> dict[str, Any]:
    """A row whose right answer is its own number."""
    called = {"type": "function_call", "name": "f", "arguments": json.dumps({"x": number})}
    wanted = called | {"arguments": json.dumps({"x": number if expected is None else expected})}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Call f with {number}."}], "tools": []},
        "expected_action": wanted, "response": {"output": [called]}, "uuid": f"row-{number}",
    }  # fmt: skip


def desk_turns(count: int) -> list[Candidate]:
    trajectories = iter_trajectories(get_domain("helpdesk"), Split.TRAIN, count, seed=0)
    return [turn for one in trajectories for turn in iterate_candidates(one, Split.TRAIN)]


ODD = Candidate(
    (
        Message(Role.SYSTEM, "\ud800"),
        Message(Role.ASSISTANT, "x", (ToolCall("f", '{"a": 1e400', "c1"),), thinking="hm"),
        Message(Role.TOOL, "r", tool_call_id="c1"),
    ),
    (Tool("f", "d", {"type": "object", "properties": {"b": {}, "a": {"default": None}}}),),
    Message(Role.ASSISTANT, "", (ToolCall("f", "{}", "c2"),), thinking="so"),
    "t", 3, "terminal", Split.TEST, {"nemo_row": {"z": [1, {"y": None}]}},
)  # fmt: skip


def test_candidates_and_actions_travel_without_loss() -> None:
    action = Action("\udfff", (ToolCall("", '{"'),), "text", "wrong", "thought")
    assert read_question(json.loads(question("functional", ODD, action))) == ("functional", ODD, action)
    for turn in desk_turns(2):
        assert read_question(json.loads(question("exact", turn, Action())))[1] == turn


def test_many_clients_each_get_the_answer_to_their_own_row(url: str) -> None:
    """64 clients at once, each with requests of its own of which every third is wrong in its own way."""
    results: list[list[str]] = [[] for _ in range(CLIENTS)]
    begin = threading.Barrier(CLIENTS)

    def ask(client: int) -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            begin.wait()
            for turn in range(8):
                number = 1000 * client + turn
                sent = row(number, None if turn % 3 else number + 1)
                reply = http.post("/verify", json=sent)
                got = reply.json()
                good = reply.status_code == 200 and {key: got[key] for key in sent} == sent
                right = got.get("reward") == float(bool(turn % 3)) and got["components"]["arguments"] is bool(turn % 3)
                results[client].append("ok" if good and right else f"{reply.status_code} {got}")

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [["ok"] * 8] * CLIENTS
    health = httpx.get(f"{url}/health").json()
    assert (health["status"], health["open"], health["deaths"]) == ("ok", 0, 0)
    assert health["answered"] >= 8 * CLIENTS


def test_the_service_s_verdicts_are_those_of_this_process(url: str, places: Places) -> None:
    turns = desk_turns(4)
    actions = [Action(turn.expert.content, turn.expert.tool_calls) for turn in turns]
    actions += [Action("Hello \ud800."), Action(error="cut off", text="{"), Action(tool_calls=(ToolCall("f", "{"),))]
    cases = [
        (turn, action) for at, turn in enumerate(turns) for action in (actions[at], *actions[-3:], actions[at - 1])
    ]
    for kind in ("functional", "exact"):
        settings = {"arms": {"base": {}}, "verifier": {"service": url, "kind": kind}}
        remote = configured_verifier(Config.model_validate(settings), places)
        assert isinstance(remote, ServiceVerifier)
        here = verifier_here(CONFIG, places, kind)
        assert (remote.name, remote.version) == (here.name, here.version)
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(remote.verify, *zip(*cases, strict=True)))
        expected = [here.verify(*case) for case in cases]
        assert found == expected
        assert [verdict.verifier for verdict in found] == [verdict.verifier for verdict in expected]
        assert len({verdict.reward for verdict in found}) == 2


def test_rows_are_judged_as_the_command_line_does(url: str, worker_settings: WorkerSettings) -> None:
    sent = row(1) | {"verifier": {"word_count_similarity_threshold": 0.3}}
    assert httpx.post(f"{url}/verify", json=sent).json() == {**sent, **verify_row(sent)}
    compat = GradingWorker(replace(worker_settings, compat=True))
    reply = json.loads(compat.reply(Job("/verify", encode(sent))).body)
    assert reply == {**sent, **verify_row(sent, compat=True)}
    assert reply["category"] == "EXPECTED_TOOL_CALL"
    assert httpx.post(f"{url}/seed_session", json={}).json() == {}


HERE = Grounds(None)
BAD: list[tuple[bytes, int, str]] = [
    (b"", 400, "not JSON"),
    (b"{", 400, "not JSON"),
    (b'{"x": NaN}', 400, "NaN"),
    (b"[" * 100_000, 400, "nested too deeply"),
    (b"\xff", 400, "not JSON"),
    (b"[]", 422, "no JSON object"),
    (b"{}", 422, "response"),
    (b'{"response": "x", "verifier": {"nonsense": 1}}', 422, "nonsense"),
    (b" " * ((1 << 20) + 1), 413, "over"),
]


@pytest.mark.parametrize(("body", "status", "word"), BAD, ids=range(len(BAD)))
def test_a_request_that_is_none_is_refused_with_its_reason(body: bytes, status: int, word: str, url: str) -> None:
    reply = httpx.post(f"{url}/verify", content=body)
    assert (reply.status_code, word in reply.json()["error"]) == (status, True)
    assert httpx.post(f"{url}/verify", json=row(2)).json()["reward"] == 1.0


def test_what_is_no_question_is_refused(url: str) -> None:
    for body in ({}, {"kind": "functional", "candidate": [], "action": []}, {"kind": "odd"}):
        assert httpx.post(f"{url}/verdict", json=body).status_code == 422
    chunks = iter([b" " * (1 << 19)] * 3)  # a length that is not declared
    assert httpx.post(f"{url}/verdict", content=chunks).status_code == 413


def test_a_full_service_says_when_to_come_again(narrow: str, places: Places) -> None:
    """One place, which a request holds whose body does not end; a client of ours waits at its side."""
    let_go = threading.Event()

    def slow_body() -> Iterator[bytes]:
        body = encode(row(3))
        yield body[:10]
        let_go.wait(30)
        yield body[10:]

    known = httpx.Client(base_url=narrow, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    with known, ThreadPoolExecutor(2) as pool:
        held = pool.submit(lambda: known.post("/verify", content=slow_body()).json()["reward"])
        while known.get("/health").json()["open"] == 0:
            time.sleep(0.01)
        refused = known.post("/verify", json=row(4))
        assert (refused.status_code, refused.headers["retry-after"]) == (BUSY, "1")
        here = verifier_here(CONFIG, places, "functional")
        remote = ServiceVerifier(ServiceConfig(endpoints=(narrow,)), "functional", here, HERE, TOKEN)
        asked = pool.submit(remote.verify, ODD, Action())
        time.sleep(0.1)
        let_go.set()
        assert held.result() == 1.0
        assert asked.result() == here.verify(ODD, Action())
        assert known.get("/health").json()["refused"] >= 1


def test_processes_that_die_cost_no_request_its_answer(url: str) -> None:
    before = httpx.get(f"{url}/health").json()["deaths"]
    assert len(_children()) >= 2
    for child in _children():
        os.kill(child, signal.SIGKILL)
    assert httpx.post(f"{url}/verify", json=row(6), timeout=60).json()["reward"] == 1.0
    assert httpx.get(f"{url}/health").json()["deaths"] > before


def _children() -> list[int]:
    """Processes of this one that grade."""
    found = []
    for place in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        found += [int(one) for one in place.read_text().split()]
    return [one for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def test_a_service_that_could_start_no_process_for_a_while_answers_again(worker_settings: WorkerSettings) -> None:
    async def ask() -> list[int]:
        job = Job("/verify", encode(row(1)))
        async with Graders(worker_settings, 1, QueueLimits()) as graders:
            graders.settings = replace(worker_settings, domain=lambda: None)  # type: ignore[arg-type]  # travels to no process
            for process in graders._pool._processes.values():
                process.kill()
            refused = await asyncio.wait_for(graders.reply(job), 30)
            graders.settings = worker_settings
            answered = [await asyncio.wait_for(graders.reply(job), 30) for _ in range(2)]
            return [one.status for one in (refused, *answered)]

    assert asyncio.run(ask()) == [BUSY, 200, 200]


def test_a_client_that_goes_away_is_no_error_of_the_service(url: str, caplog: pytest.LogCaptureFixture) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    _wait_for_open(url, 0)
    time.sleep(0.1)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_nobody_is_graded_for_whom_nobody_waits(worker_settings: WorkerSettings) -> None:
    others = set(_children())
    with service(worker_settings, limits=QueueLimits(requests=1)) as address:
        (grader,) = set(_children()) - others
        host, port = address.removeprefix("http://").split(":")
        body = encode(row(8))
        os.kill(grader, signal.SIGSTOP)
        try:
            with socket.create_connection((host, int(port))) as connection:
                head = f"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                _wait_for_open(address, 1)
                assert httpx.post(f"{address}/verify", json=row(9)).status_code == BUSY
            _wait_for_open(address, 0)
        finally:
            os.kill(grader, signal.SIGCONT)
        assert httpx.post(f"{address}/verify", json=row(10), timeout=60).json()["reward"] == 1.0


def _wait_for_open(address: str, count: int) -> None:
    deadline = time.monotonic() + 10
    while httpx.get(f"{address}/health").json()["open"] != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("token", ["schlüssel", "a\nb", " a"])
def test_a_token_that_no_header_can_carry_is_refused_at_once(token: str, worker_settings: WorkerSettings) -> None:
    with pytest.raises(ConfigError, match="no header can carry"):
        make_app(worker_settings, 1, QueueLimits(), token)


def test_a_token_is_asked_for_and_shown_nowhere(narrow: str, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}]
    replies = [httpx.post(f"{narrow}/verify", json=row(7), headers=headers) for headers in wrong]
    assert [reply.status_code for reply in replies] == [401] * 3
    settings = {"arms": {"base": {}}, "verifier": {"service": {"endpoints": [narrow]}}}
    config = Config.model_validate(settings)
    monkeypatch.setenv("PIVOTRL_SERVICE_TOKEN", TOKEN)
    here = verifier_here(config, places, "functional")
    assert configured_verifier(config, places).verify(ODD, Action()) == here.verify(ODD, Action())
    monkeypatch.setenv("PIVOTRL_SERVICE_TOKEN", "not-the-one")
    with pytest.raises(ConfigError, match="PIVOTRL_SERVICE_TOKEN") as caught:
        configured_verifier(config, places).verify(ODD, Action())
    assert "not-the-one" not in str(caught.value)
    assert TOKEN not in httpx.get(f"{narrow}/health").text


def test_another_verifier_or_another_server_is_refused(url: str, places: Places) -> None:
    other = Config.model_validate({"arms": {"base": {}}, "verifier": {"text_threshold": 0.7, "service": url}})
    with pytest.raises(ConfigError, match="has another verifier"):
        configured_verifier(other, places)
    here = verifier_here(CONFIG, places, "functional")
    once = {"retries": 1, "request_seconds": 5.0}
    with CompletionsServer(None) as foreign, pytest.raises(EngineError, match="no service of verdicts"):
        ServiceVerifier(ServiceConfig(endpoints=(foreign.url,), **once), "functional", here, HERE, first_wait=0.01)
    with pytest.raises(TemporaryError, match=r"verifier\.service\.retries"):
        ServiceVerifier(
            ServiceConfig(endpoints=("http://127.0.0.1:9",), **once), "functional", here, HERE, first_wait=0.01
        )


def test_other_files_behind_a_row_are_an_error(url: str, places: Places, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.txt").write_text("Words.")
    here = verifier_here(CONFIG, places, "functional")
    at = replace(ODD, metadata={**ODD.metadata, "index": "docs"})
    remote = ServiceVerifier(ServiceConfig(endpoints=(url,)), "functional", here, Grounds(tmp_path))
    assert remote.verify(ODD, Action()) == here.verify(ODD, Action())
    with pytest.raises(ConfigError, match="holds other files there"):
        remote.verify(at, Action())  # the service has no such folder


def test_a_lost_connection_is_asked_again_at_the_next_service(url: str, places: Places) -> None:
    here = verifier_here(CONFIG, places, "functional")
    remote = ServiceVerifier(ServiceConfig(endpoints=(url, url)), "functional", here, HERE, first_wait=0.01)
    remote.servers.endpoints = ("http://127.0.0.1:9", url)
    assert [remote.verify(ODD, Action()) for _ in range(4)] == [here.verify(ODD, Action())] * 4
