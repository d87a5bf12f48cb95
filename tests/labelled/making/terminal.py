"""Labelled pairs of terminal turns: `python -m tests.labelled.making.terminal [LABELS]`.

States, with what was shown before, and the commands at each: written by hand (`terminal_states.py`), rewritten by rules
(`terminal_rewrites.py`), and sampled from a model (`terminal_sampling.py`, kept in `samples.jsonl`). All are executed
in a workspace and its other copies (`terminal_labels.py`); pairs are drawn from what that says. LABELS names a file in
which labels are kept between runs.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Indel

from pivotrl_core.verifiers.workspace import make_workspace
from tests.labelled.making.pair_rows import pair_id, part_of
from tests.labelled.making.terminal_labels import Label, Labelled, label_commands, observe
from tests.labelled.making.terminal_rewrites import rewritten
from tests.labelled.making.terminal_states import State, states
from tests.labelled.making.terminal_trees import WORLDS
from tests.labelled.making.terminal_worlds import world

FOLDER = Path(__file__).parents[1] / "terminal"
_PER_STATE = {
    (Label.VALID, "model"): 2, (Label.VALID, "hand"): 2, (Label.VALID, "rule"): 1,
    (Label.WRONG, "model"): 3, (Label.WRONG, "hand"): 1, (Label.WRONG, "rule"): 1,
}  # fmt: skip
_SAME_KIND, _MOST_OF_A_KIND = 3, 20
_ALIKE, _ALIKE_ASTRAY = 0.6, 0.85
"""Similarity of wrong commands to a right one; of those that name what is not there, a higher one."""
_GIVEN, _GIVEN_OF_KNOWN = 0.8, 0.6
"""Largest share of a sampled command that was given to the model as its beginning."""
_WITHOUT_WORKSPACE = 8
"""One state of so many has none."""
_INSTRUCTION = {
    "terminus_1": "You solve tasks at a Linux terminal. Answer with one JSON object: state_analysis, explanation, "
                  "commands (each with keystrokes, is_blocking, timeout_sec), is_task_complete.",
    "terminus_2": "You solve tasks at a Linux terminal. Answer with one JSON object: analysis, plan, commands (each "
                  "with keystrokes and, if wanted, duration), task_complete.",
    "bash": "You solve tasks at a Linux terminal with the tool bash.",
}  # fmt: skip
_BASH = {
    "type": "function", "name": "bash", "description": "Run a command in the shell.", "strict": False,
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A command at a state with its label, where it came from and what is other in it; `expert`: than the state's."""

    command: str
    labelled: Labelled
    origin: str
    kind: str
    expert: str = ""

    @property
    def source(self) -> str:
        return "model" if self.origin == "model" else "hand" if self.kind.startswith("by_hand") else "rule"


def main() -> None:
    """Label all commands, draw pairs, and write them with the workspaces that they name."""
    known = _Known(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    sampled = _samples()
    rows: list[dict[str, Any]] = []
    for state in states():
        commands = _commands(state, sampled.get(state.id, []))
        labels = known.labels(state, [command for command, _, _ in commands])
        drawn = [
            Drawn(command, labels[command], origin, kind) for command, origin, kind in commands if command in labels
        ]
        chosen = list(_draw(state, drawn))
        rows += [_row(state, one) for one in (*chosen, *_turned(state, chosen, drawn, known))]
    _write(_cap(rows))


def _samples() -> dict[str, list[str]]:
    """By state, what the model wrote itself to a good part: of what a rule or a hand wrote as well, four tenths."""
    found: dict[str, list[str]] = {}
    known = {(state.id, command) for state in states() for command in _written(state)}
    for line in (FOLDER / "samples.jsonl").read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        state, command = sample["state"], sample["command"]
        given = len(sample["begun"]) / max(1, len(command))
        if given <= (_GIVEN_OF_KNOWN if (state, command) in known else _GIVEN):
            found.setdefault(state, []).append(command)
    return found


def _written(state: State) -> Iterator[str]:
    yield from (command for _, command in state.others)
    yield from (command for _, command in rewritten(state.expert, state.id))


def _commands(state: State, sampled: Sequence[str]) -> list[tuple[str, str, str]]:
    """(command, origin, kind), each command once; what the model wrote is the model's, though a hand wrote it too."""
    found = [(command, "model", _kind(state.expert, command)) for command in sampled]
    found += [(command, "rewritten", f"by_hand_{kind}") for kind, command in state.others]
    found += [(command, "rewritten", kind) for kind, command in rewritten(state.expert, state.id)]
    unique: dict[str, tuple[str, str, str]] = {}
    for one in found:
        if one[0].strip() != state.expert.strip():
            unique.setdefault(one[0].strip(), (one[0].strip(), *one[1:]))
    return list(unique.values())


def _kind(expert: str, command: str) -> str:
    """What is other in a command that a model wrote: its tools, the number of its stages, or the first other word."""
    words = [_words(one) for one in (expert, command)]
    tools = [_tools(one) for one in words]
    if words[0] == words[1]:
        return "quotes_and_white_space"
    if tools[0] != tools[1]:
        counts = [len(one) for one in tools]
        return "other_tool" if counts[0] == counts[1] else "stage_added" if counts[0] < counts[1] else "stage_missing"
    pairs = zip(*words, strict=False)
    other = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if other is None:
        return "words_added" if len(words[1]) > len(words[0]) else "words_missing"
    if any(word.startswith("-") for word in other):
        return "options"
    if any(re.fullmatch(r"[\w.,/-]+\.\w+|\S*/\S*", word) for word in other) and " " not in "".join(other):
        return "path"
    if re.sub(r"\d+", "", other[0]) == re.sub(r"\d+", "", other[1]):
        return "number"
    return "redirection" if any(">" in word for word in other) else "argument"


def _words(command: str) -> list[str]:
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        return list(lexer)
    except ValueError:
        return command.split()


def _tools(words: Sequence[str]) -> list[str]:
    marks = ("|", "&&", "||", ";", "(", ";;")
    return [word for at, word in enumerate(words) if word not in marks and (at == 0 or words[at - 1] in marks)]


class _Known:
    """Labels, kept in a file between runs where one is named."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[tuple[str, str], Labelled | None] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                state, command, label = json.loads(line)
                self.found[state, command] = (
                    None if label is None else Labelled(**{**label, "label": Label(label["label"])})
                )

    def labels(self, state: State, commands: Sequence[str]) -> dict[str, Labelled]:
        missing = [command for command in commands if (state.id, command) not in self.found]
        if missing:
            fresh = label_commands(state, missing)
            for command in missing:
                self.found[state.id, command] = fresh.get(command)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    for command in missing:
                        label = fresh.get(command)
                        file.write(json.dumps([state.id, command, None if label is None else asdict(label)]) + "\n")
        found = {command: self.found[state.id, command] for command in commands}
        return {command: label for command, label in found.items() if label is not None}


def _draw(state: State, drawn: Sequence[Drawn]) -> Iterator[Drawn]:
    """Pairs of one state: of each label and origin so many, two of a kind at most; wrong ones where they look alike."""
    right = [state.expert, *(one.command for one in drawn if one.labelled.label is Label.VALID)]
    order = sorted(drawn, key=lambda one: sha256(f"{state.id}/{one.command}".encode()).hexdigest())
    for (label, source), count in _PER_STATE.items():
        kinds: Counter[str] = Counter()
        for one in order:
            fits = one.labelled.label is label and one.source == source and kinds[one.kind] < _SAME_KIND
            if fits and kinds.total() < count and (label is Label.VALID or _is_hard(one, right)):
                kinds[one.kind] += 1
                yield one


def _turned(state: State, chosen: Sequence[Drawn], drawn: Sequence[Drawn], known: _Known) -> Iterator[Drawn]:
    """Valid commands of the model as the expert's, each beside another one that does what the state's expert does."""
    others = [one for one in chosen if one.labelled.label is Label.VALID and one.origin == "rewritten"]
    others += [one for one in drawn if one.labelled.label is Label.VALID and one.kind.startswith("by_hand")]
    left = list(dict.fromkeys(one.command for one in reversed(others)))
    for one in chosen:
        if one.labelled.label is Label.VALID and one.origin == "model":
            other = left.pop(0) if left else state.expert
            found = known.labels(replace(state, expert=one.command), [other]).get(other)
            if found is not None and found.label is Label.VALID:
                yield Drawn(other, found, "model", f"of_model_{_kind(one.command, other)}", one.command)


def _is_hard(one: Drawn, right: Sequence[str]) -> bool:
    alike = max(Indel.normalized_similarity(one.command, other) for other in right)
    alike_enough = _ALIKE_ASTRAY if one.labelled.astray else _ALIKE
    return alike >= alike_enough and not one.labelled.broken


def _row(state: State, one: Drawn) -> dict[str, Any]:
    digits = int(sha256(state.id.encode()).hexdigest()[:8], 16)
    harness = ("terminus_2", "terminus_1", "terminus_2", "bash", "terminus_1")[digits % 5]
    row: dict[str, Any] = {
        "responses_create_params": {
            "input": [{"role": "system", "content": _INSTRUCTION[harness]}, {"role": "user", "content": _seen(state)}],
            "tools": [_BASH] if harness == "bash" else [], "parallel_tool_calls": False, "tool_choice": "auto",
        },
        "metadata": {"harness": harness},
    }  # fmt: skip
    if harness == "bash":
        call = {"type": "function_call", "name": "bash"}
        row["expected_action"] = {**call, "arguments": json.dumps({"command": one.expert or state.expert})}
        row["response"] = [{**call, "call_id": "1", "arguments": json.dumps({"command": one.command})}]
    else:
        row["expected_answer"] = _answer(harness, one.expert or state.expert)
        row["response"] = _answer(harness, one.command)
    if digits // 5 % _WITHOUT_WORKSPACE:
        row["workspace"] = f"workspaces/{state.world}.tar"
    established = {"label": str(one.labelled.label), "origin": one.origin, "kind": one.kind, "established": "executed"}
    return {**row, "pair": pair_id(row), "part": str(part_of(row)), **established, **_differs(one.labelled)}


def _differs(labelled: Labelled) -> dict[str, Any]:
    """Of a wrong one: what differs, and whether only other copies of the workspace tell."""
    return {} if labelled.label is Label.VALID else {"differs": labelled.where, "by_chance": labelled.chance}


def _seen(state: State) -> str:
    turns = "".join(f"$ {command}\n{output}" for command, output in observe(state))
    return f"Task: {state.task}\n\nThe terminal so far, in the folder /box:\n{turns}$ "


def _answer(harness: str, command: str) -> str:
    """A Terminus answer; a line of its own for each command, but for here-documents and loops."""
    whole = "<<" in command or "python3 -c" in command or "\\\n" in command
    lines = [command] if whole else command.split("\n")
    if harness == "terminus_1":
        typed = [{"keystrokes": f"{line}\n", "is_blocking": True, "timeout_sec": 5} for line in lines]
        said = {"state_analysis": "The task is at hand.", "explanation": "This does it.", "commands": typed}
        return json.dumps({**said, "is_task_complete": False})
    typed = [{"keystrokes": f"{line}\n", "duration": 1.0} for line in lines]
    return json.dumps({"analysis": "The task is at hand.", "plan": "Do it.", "commands": typed, "task_complete": False})


def _cap(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """No more than `_MOST_OF_A_KIND` rewritten pairs of one kind and label, drawn by their ids."""
    counts: Counter[tuple[str, str]] = Counter()
    left: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: str(row["pair"])):
        key = (row["label"], row["kind"])
        counts[key] += row["origin"] == "rewritten"
        if counts[key] <= _MOST_OF_A_KIND:
            left.append(row)
    return left


def _write(rows: list[dict[str, Any]]) -> None:
    shutil.rmtree(FOLDER / "workspaces", ignore_errors=True)
    (FOLDER / "workspaces").mkdir(parents=True)
    for name in WORLDS:
        (FOLDER / "workspaces" / f"{name}.tar").write_bytes(make_workspace(world(name, 0)).image)
    lines = [
        json.dumps(row, sort_keys=True, ensure_ascii=False) for row in sorted(rows, key=lambda row: str(row["pair"]))
    ]
    (FOLDER / "pairs.jsonl.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    counts = Counter((row["part"], row["label"], row["origin"], "workspace" in row) for row in rows)
    for key, count in sorted(counts.items()):
        print(*key, count)


if __name__ == "__main__":
    main()
