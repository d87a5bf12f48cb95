"""The examples of docs/plugging-in.md: an environment, a grader and a reader of one's own, at work in the library."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from pivotrl_core.environments import registry as domains
from pivotrl_core.environments.protocol import Environment, ExpertDomain, Observation, Pool, Score, Task
from pivotrl_core.environments.recording import Recorder, iter_trajectories, to_openai_row
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import write_jsonl
from pivotrl_core.trajectories import registry as readers
from pivotrl_core.trajectories.arguments import decode_arguments
from pivotrl_core.trajectories.drops import DropReason
from pivotrl_core.trajectories.fields import read_list, read_object, reject
from pivotrl_core.trajectories.loading import load_trajectories
from pivotrl_core.trajectories.protocol import TrajectoryReader
from pivotrl_core.types import Action, Candidate, Json, Message, Role, Split, Tool, ToolCall, Trajectory
from pivotrl_core.verifiers import registry as graders
from pivotrl_core.verifiers.protocol import Grader, GradingDecision, printable
from pivotrl_core.verifiers.registry import GraderSettings, get_verifier
from pivotrl_core.verifiers.settings import VerdictReason
from pivotrl_core.verifiers.tool_call import DomainRules
from tests.candidate_sets import extract_candidates

PAGE = Path(__file__).parents[2] / "docs" / "plugging-in.md"


# example: environment
SWITCH = Tool(
    "switch",
    "Switch a lamp on or off.",
    {
        "type": "object",
        "properties": {"room": {"type": "string"}, "on": {"type": "boolean", "default": True}},
        "required": ["room"],
    },
)


class LampEnvironment:
    """A house with lamps. The episode ends when the agent says something to the user."""

    tools: tuple[Tool, ...] = (SWITCH,)

    def reset(self, task: Task) -> Observation:
        self._wanted: dict[str, bool] = dict(task.content["wanted"])
        self._lamps = dict.fromkeys(self._wanted, False)
        self._done = False
        request = f"Light in {' and '.join(self._wanted)}, please."
        return Observation((Message(Role.SYSTEM, "Switch lamps as asked."), Message(Role.USER, request)))

    def step(self, action: Action) -> Observation:
        if action.error:
            return Observation((Message(Role.USER, f"I cannot read that: {action.error}."),))
        if action.tool_calls:
            return Observation(tuple(self._switch(call) for call in action.tool_calls))
        self._done = True
        return Observation((), done=True)

    def _switch(self, call: ToolCall) -> Message:
        arguments = decode_arguments(call.arguments).value
        room = arguments.get("room")
        if call.name != "switch" or not isinstance(room, str) or room not in self._lamps:
            return Message(Role.TOOL, "error: no such lamp", tool_call_id=call.call_id)
        self._lamps[room] = bool(arguments.get("on", True))
        return Message(Role.TOOL, "ok", tool_call_id=call.call_id)

    def score(self) -> Score:
        return Score(float(self._done and self._lamps == self._wanted), {"lamps": self._lamps})

    def snapshot(self) -> bytes:
        return json.dumps([self._wanted, self._lamps, self._done]).encode()

    def restore(self, snapshot: bytes) -> None:
        self._wanted, self._lamps, self._done = json.loads(snapshot)


class LampDomain:
    """Tasks, environments, and an expert to make trajectories with."""

    name = "lamps"

    def tasks(self, split: Split, count: int, seed: int, pool: Pool = Pool.MAIN) -> tuple[Task, ...]:
        names = [f"{split}-{pool}-{seed}-{index}" for index in range(count)]
        return tuple(Task(f"lamps-{name}", "one-lamp", split, {"wanted": {f"room {name}": True}}) for name in names)

    def environment(self) -> LampEnvironment:
        return LampEnvironment()

    def expert_trajectory(self, task: Task, seed: int) -> Trajectory:
        episode = Recorder(self.environment(), task)
        for room in task.content["wanted"]:
            episode.call("switch", {"room": room} if seed % 2 else {"room": room, "on": True})
        episode.say("It is done.")
        return episode.trajectory()

    def same_call(self, candidate: Candidate, expected: ToolCall, actual: ToolCall) -> bool:
        return False  # nothing beyond what the schema says already

    def same_message(self, candidate: Candidate, expected: str, actual: str) -> bool:
        return True  # any message will do where one is wanted


# end


# example: grader
class ShellGrader:
    """Accepts a message that is the expert's command, however it is quoted and spaced."""

    name = "shell"
    version = "1"

    def grade(self, candidate: Candidate, action: Action) -> dict[str, Json]:
        if action.error:
            return {"parsed": False, "error": printable(action.error)}
        words = None if action.tool_calls else _words(action.content)
        same = words is not None and words == _words(candidate.expert.content)
        return {"parsed": True, "decision": "call" if action.tool_calls else "message", "equal": same}

    def decide(self, components: Mapping[str, Json]) -> GradingDecision:
        if not components["parsed"]:
            return GradingDecision(False, VerdictReason.MALFORMED, 0.0)
        if components["decision"] == "call":
            return GradingDecision(False, VerdictReason.MESSAGE_EXPECTED, 0.0)
        same = bool(components["equal"])
        return GradingDecision(same, VerdictReason.ACCEPTED if same else VerdictReason.MESSAGE_DIFFERS, float(same))


def _words(command: str) -> list[str] | None:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return None


# end


# example: reader
SPEAKERS = {"manager": Role.SYSTEM, "customer": Role.USER, "agent": Role.ASSISTANT}


class DialogueReader:
    """Rows with `dialogue`, a list of {"speaker": who, "text": what}."""

    name = "dialogue"

    def recognises(self, row: Mapping[str, Json]) -> bool:
        return isinstance(row.get("dialogue"), list)

    def read_row(self, row: Mapping[str, Json], source: str) -> Trajectory:
        messages = []
        for index, value in enumerate(read_list(row.get("dialogue"), "dialogue")):
            turn = read_object(value, f"dialogue[{index}]")
            role = SPEAKERS.get(str(turn.get("speaker")))
            if role is None:
                reject(DropReason.UNKNOWN_ROLE, f"dialogue[{index}].speaker", str(turn.get("speaker"))[:80])
            messages.append(Message(role, str(turn.get("text") or "")))
        return Trajectory(tuple(messages), source=source)


# end


class DarkDomain:
    """The least that a domain is."""

    name = "dark"

    def tasks(self, split: Split, count: int, seed: int, pool: Pool = Pool.MAIN) -> tuple[Task, ...]:
        return LampDomain().tasks(split, count, seed, pool)

    def environment(self) -> LampEnvironment:
        return LampEnvironment()


def test_the_page_shows_this_code() -> None:
    blocks = Path(__file__).read_text(encoding="utf-8").split("# example: ")[1:4]
    page = PAGE.read_text(encoding="utf-8")
    for block in blocks:
        name, _, rest = block.partition("\n")
        assert rest.partition("\n\n\n# end\n")[0] in page, f"the example '{name}' differs from the page"


def test_an_environment_of_ones_own_is_a_domain_with_trajectories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(domains.DOMAINS, "lamps", f"{__name__}:LampDomain")
    domain: ExpertDomain = domains.get_expert_domain("lamps")
    write_jsonl(tmp_path / "lamps.jsonl", map(to_openai_row, iter_trajectories(domain, Split.TRAIN, 8, seed=0)))
    loaded = load_trajectories([tmp_path / "lamps.jsonl"])
    found = extract_candidates(loaded.trajectories, 0.0, 0.0)
    assert (loaded.report.kept, len(found.candidates)) == (8, 16)  # a call and a message each
    verifier = get_verifier("functional", GraderSettings(rules=domain))
    calls = [candidate for candidate in found.candidates if candidate.expert.tool_calls]
    rooms = [json.loads(candidate.expert.tool_calls[0].arguments)["room"] for candidate in calls]
    for candidate, room in zip(calls, rooms, strict=True):
        for arguments in ({"room": room}, {"on": True, "room": room}):  # `on` has a default
            action = Action(tool_calls=(ToolCall("switch", json.dumps(arguments)),))
            assert verifier.verify(candidate, action).reward == 1.0


def test_a_domain_without_an_expert_plays_and_makes_no_trajectories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(domains.DOMAINS, "dark", f"{__name__}:DarkDomain")
    domain = domains.get_domain("dark")
    (task,) = domain.tasks(Split.TEST, 1, 0)
    assert domain.environment().reset(task).messages[-1].role is Role.USER
    assert not isinstance(domain, DomainRules)
    with pytest.raises(ConfigError, match="no scripted expert"):
        domains.get_expert_domain("dark")


def test_an_episode_goes_on_from_a_snapshot_and_is_scored_by_its_final_state() -> None:
    domain = LampDomain()
    (task,) = domain.tasks(Split.TEST, 1, 0)
    (room,) = task.content["wanted"]
    first, second = domain.environment(), domain.environment()
    first.reset(task)
    assert first.step(Action(error="cut off")).done is False
    first.step(Action(tool_calls=(ToolCall("switch", json.dumps({"room": room})),)))
    second.restore(first.snapshot())
    assert second.step(Action(content="Done.")).done
    assert (first.score().success, second.score().success) == (0.0, 1.0)  # the first one has not ended


@pytest.mark.parametrize(
    ("action", "reward", "reason"),
    [
        (Action(content="grep  -n 'a b' notes.txt"), 1.0, "accepted"),
        (Action(content="grep -n a b notes.txt"), 0.0, "message_differs"),
        (Action(content="grep 'a"), 0.0, "message_differs"),
        (Action(text="gre", error="cut off"), 0.0, "malformed"),
        (Action(tool_calls=(ToolCall("grep", "{}"),)), 0.0, "message_expected"),
    ],
)
def test_a_grader_of_ones_own_gives_verdicts_and_never_raises(
    action: Action, reward: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graders, "GRADERS", {**graders.GRADERS, "shell": lambda settings: ShellGrader()})
    candidate = Candidate((), (), Message(Role.ASSISTANT, 'grep -n "a b" notes.txt'), "t", 0, domain="shell")
    verdict = get_verifier("functional").verify(candidate, action)
    assert (verdict.reward, verdict.reason) == (reward, reason)


def test_a_reader_of_ones_own_reads_rows_and_names_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "READERS", (*readers.READERS, DialogueReader()))
    good = {"dialogue": [{"speaker": "customer", "text": "Hello"}, {"speaker": "agent", "text": "Hi"}]}
    bad = {"dialogue": [{"speaker": "parrot", "text": "Hello"}]}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (good, bad)), encoding="utf-8")
    loaded = load_trajectories([path])
    assert [message.content for message in loaded.trajectories[0].messages] == ["Hello", "Hi"]
    (drop,) = loaded.report.drops
    assert (drop.line, drop.reason, drop.field) == (2, DropReason.UNKNOWN_ROLE, "dialogue[0].speaker")


def test_the_examples_fit_the_protocols() -> None:
    environment: Environment = LampEnvironment()
    domain: ExpertDomain = LampDomain()
    grader: Grader = ShellGrader()
    reader: TrajectoryReader = DialogueReader()
    names = {domain.name, grader.name, reader.name}
    assert (len(environment.tools), names) == (1, {"lamps", "shell", "dialogue"})
