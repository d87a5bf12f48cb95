"""Makes `tests/labelled/software`: pairs of coding agents' calls, with labels that come from executing both.

    python -m tests.labelled.making.software                      the set, from the samples that are kept beside it
    python -m tests.labelled.making.software sample MODELS        the samples anew, with the model below that folder

Labels take some minutes in the sandbox. Both give the same bytes again (samples on a processor of the same kind).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.labelled.making import software_braces, software_edits, software_looks
from tests.labelled.making.software_commands import Place, Task
from tests.labelled.making.software_prompts import (
    AGAIN,
    BEGUN,
    BODIES,
    LINES,
    LINES_AGAIN,
    again_prompts,
    begun_prompts,
    edit_prompts,
    line_prompts,
    lines_again_prompts,
)
from tests.labelled.making.software_sampled import sampled_lines
from tests.labelled.making.software_sampling import sample
from tests.labelled.making.software_states import Pair, State
from tests.labelled.making.software_tasks import Function, read_tasks
from tests.labelled.making.software_worlds import Tree, repository, save, varied

FOLDER = Path(__file__).parents[1] / "software"
SAMPLES = FOLDER / "samples.jsonl.gz"
FREE = 80
SAME_KIND = 3
SAMPLED = {"valid": 9, "wrong": 2}
"""Most sampled pairs of a label at a state: the model writes many wrong calls and few right ones."""
ALIKE = 0.9
"""Least likeness of the modules after two edits, where a sampled edit is a hard negative."""


class World:
    """All repositories, with their states."""

    def __init__(self) -> None:
        self.functions = read_tasks()
        by_package: dict[str, list[Function]] = defaultdict(list)
        for one in self.functions:
            by_package[one.package].append(one)
        self.trees: dict[str, Tree] = {package: repository(some) for package, some in by_package.items()}
        self.copies: dict[str, list[Tree]] = {
            package: varied(self.trees[package], some) for package, some in by_package.items()
        }
        self.places: list[Place] = software_looks.places(self.functions, self.trees)
        self.edits = software_edits.edit_states(self.functions, self.trees)
        self.views = software_looks.view_states(self.places, self.trees)
        self.commands: list[tuple[State, Task]] = software_looks.command_states(self.places, self.trees)
        self.searches = software_looks.search_states(self.places, self.trees)

    @property
    def lines(self) -> list[State]:
        return [*self.views, *(state for state, _ in self.commands), *self.searches]


def make_samples(models: Path) -> None:
    """Sample anew what the model writes at all states."""
    world = World()
    keep_samples([
        *sample(edit_prompts(world.functions), BODIES, models),
        *sample(again_prompts(world.functions), AGAIN, models),
        *sample(begun_prompts(world.functions), BEGUN, models),
        *sample(line_prompts(some_of(world.lines)), LINES, models),
        *sample(lines_again_prompts(world.lines), LINES_AGAIN, models),
    ])  # fmt: skip


def some_of(states: Sequence[State]) -> list[State]:
    """The states whose lines are sampled freely: little of that is of use, and it takes long."""
    count = len(states)
    return [states[at] for at in sorted(range(count), key=lambda at: at * 37 % count)[:FREE]]


def keep_samples(found: Iterable[tuple[str, float, Sequence[str]]]) -> None:
    lines = [
        json.dumps({"prompt": name, "temperature": heat, "texts": list(texts)}) for name, heat, texts in sorted(found)
    ]
    SAMPLES.parent.mkdir(parents=True, exist_ok=True)
    SAMPLES.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def read_samples() -> dict[str, list[str]]:
    """The texts of each prompt, those of the lowest temperature first."""
    texts: dict[str, list[str]] = defaultdict(list)
    for line in gzip.decompress(SAMPLES.read_bytes()).decode().splitlines():
        one = json.loads(line)
        texts[one["prompt"]] += one["texts"]
    return texts


def make_set() -> None:
    """Label all pairs, choose among them, and write the set with its workspaces."""
    world = World()
    for package, tree in world.trees.items():
        save(tree, FOLDER / f"workspaces/{package}.tar.gz")
    save(software_braces.tree(), FOLDER / "workspaces/braces.tar.gz")
    texts = read_samples()
    sampled = [*software_edits.sampled(world.edits, texts), *sampled_lines(world.lines, texts)]
    rewritten = [
        *software_edits.rewritten(world.edits), *software_looks.rewritten_views(world.views),
        *software_looks.rewritten_commands(world.commands),
        *software_looks.rewritten_searches(world.searches, world.places),
    ]  # fmt: skip
    label_all([*rewritten, *sampled], world)
    for pair in rewritten:
        if pair.label != pair.meant:
            print("left out:", pair.kind, pair.meant, pair.label or "neither", pair.call.item(0)["arguments"][-160:])
    good = [pair for pair in rewritten if pair.label == pair.meant]
    chosen = [*good, *software_braces.pairs(software_braces.states()), *_hard(sampled)]
    write(_few(chosen), sampled)


def label_all(pairs: Sequence[Pair], world: World) -> None:
    """Set all labels, state by state."""
    by_state: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_state[pair.state.id].append(pair)
    listing = {state.id: task.listing for state, task in world.commands}
    for number, some in enumerate(by_state.values()):
        state = some[0].state
        assert state.function is not None
        copies = world.copies[state.function.package]
        if state.sort == "edit":
            software_edits.label(some)
        elif state.sort == "view":
            for pair in some:
                software_looks.label_view(pair, copies)
        else:
            software_looks.label_commands(some, copies, listing.get(state.id, False))
        print(f"labelled {number + 1} of {len(by_state)}", flush=True)


def _hard(sampled: Sequence[Pair]) -> Iterator[Pair]:
    """Sampled pairs that belong into the set: valid ones, and wrong ones that look like the expert's."""
    for pair in sampled:
        if pair.label == "valid" or (pair.label == "wrong" and looks_alike(pair)):
            yield pair


def looks_alike(pair: Pair) -> bool:
    """A parseable edit that leaves most of the module as the expert's does; a line that no tool takes for nonsense."""
    if pair.state.sort == "edit":
        return pair.notes.get("alike", 0.0) >= ALIKE and "no_python" not in pair.kind
    return not pair.notes.get("refused", False)


def _few(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Each pair once, few of a kind at a state, and few sampled ones of a label."""
    counts: Counter[tuple[str, ...]] = Counter()
    order = sorted(pairs, key=lambda pair: random.Random(json.dumps(pair.call.item(0))).random())
    for pair in order:
        if pair.call.arguments == pair.state.expert.arguments:
            continue
        call = ("call", pair.state.id, json.dumps(pair.call.item(0)))
        keys = {(pair.state.id, pair.label, pair.kind): SAME_KIND, call: 1}
        if pair.origin == "model":
            keys[pair.state.id, pair.label] = SAMPLED[pair.label]
        if all(counts[key] < most for key, most in keys.items()):
            counts.update(keys.keys())
            yield pair


def write(pairs: Iterable[Pair], sampled: Sequence[Pair]) -> None:
    """The set in the order of its ids, and how much of what was sampled validly is the expert's own text."""
    rows = sorted((pair.row() for pair in pairs), key=lambda row: row["pair"])
    lines = [json.dumps(row, separators=(",", ":")) for row in rows]
    (FOLDER / "pairs.jsonl.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    valid = [pair for pair in sampled if pair.label == "valid"]
    same = sum(pair.call.arguments == pair.state.expert.arguments for pair in valid)
    (FOLDER / "sampled.json").write_text(json.dumps({"identical": same, "valid": len(valid)}) + "\n", encoding="utf-8")
    counts: Mapping[tuple[str, str], int] = Counter((row["label"], row["origin"]) for row in rows)
    print(json.dumps({f"{label} {origin}": count for (label, origin), count in sorted(counts.items())}))
    print("states:", len({json.dumps([row["responses_create_params"], row.get("workspace")]) for row in rows}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("set", "sample"), default="set")
    parser.add_argument("models", nargs="?", type=Path, default=Path(".state/models"))
    given = parser.parse_args()
    make_samples(given.models) if given.what == "sample" else make_set()


if __name__ == "__main__":
    main()
