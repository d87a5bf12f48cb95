"""Makes the labelled pairs of domain code; needs the sandbox.

    python -m tests.labelled.making.code

writes `tests/labelled/code/pairs.jsonl.gz` and `sampled.json` from the problems and `samples.jsonl`. The same bytes every
time.
"""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterator, Mapping, Sequence

from pivotrl_core.types import Json
from tests.labelled.making.code_labels import Outcome, label_programs
from tests.labelled.making.code_problems import Problem, read_problems
from tests.labelled.making.code_rewrites import at_the_edges, mutated, rewritten
from tests.labelled.making.code_samples import SAMPLES
from tests.labelled.making.pair_rows import Pair, message, said, write_pairs

FOLDER = SAMPLES.parent
_SAME, _OTHER, _EDGES = 2, 3, 1
"""Rewritten programs of a problem, by rule; those changed at one place, and those changed at the edges."""
_SLOW = 12
"""Every so many problems have a program that takes too long."""
_REACHING = (
    ("subprocess", "import subprocess\n", "    subprocess.run(['true'])\n"),
    ("shell", "import os\n", "    os.system('true')\n"),
    ("network", "import socket\n", "    socket.gethostname()\n"),
    ("interpreter", "import gc\n", "    gc.get_objects()\n"),
)


_LEAST_AGREED = 0.02
"""A changed program that is wrong on more inputs than all but these is no hard negative."""


def pairs_of(problem: Problem, number: int, texts: Sequence[str]) -> tuple[list[Pair], dict[str, int]]:
    """The pairs of a problem, and counts of the valid programs that were sampled."""
    draw = random.Random(f"code {problem.name}")
    sampled = [text for text in dict.fromkeys(texts) if _is_function(text, problem)]
    by_rule = list(rewritten(problem.reference).items())
    same = [*problem.same, *by_rule]
    mutants = [(kind, text) for kind, some in mutated(problem.reference, draw).items() for text in some[:2]]
    edges = list(at_the_edges(problem.reference, problem.inputs[0].startswith(("ints", "sorted", "words"))))
    slow = [("too_slow", _slow(problem))] if number % _SLOW == 0 else []
    rules = [*same, *problem.wrong, *mutants, *edges, *slow]
    outputs, outcomes = label_programs(problem, [*sampled, *(text for _, text in rules)])
    found = dict(zip([*sampled, *(text for _, text in rules)], outcomes, strict=True))
    row = {"tests": {"function": problem.name, "inputs": [list(one) for one in problem.tests], "outputs": outputs}}
    pairs = list(_sampled_pairs(problem, sampled, found, row))
    for some, count in ((problem.same, 4), (by_rule, _SAME)):
        drawn = _drawn(some, found, "valid", count, draw)
        pairs += [_pair(problem, text, "valid", "rewritten", kind, row) for kind, text in drawn]
    for some, count in ((problem.wrong, 4), (mutants, _OTHER), (edges, _EDGES), (slow, 1)):
        drawn = _drawn(some, found, "wrong", count, draw)
        pairs += [_pair(problem, text, "wrong", "rewritten", kind, row) for kind, text in drawn]
    if number % 3 == 0:
        kind, text = _reaching(problem, number // 3)
        pairs.append(_pair(problem, text, "wrong", "rewritten", kind, row, "by_construction"))
    valid = [text for text in texts if _is_function(text, problem) and found[text].label == "valid"]
    return pairs, {"valid": len(valid), "identical": valid.count(problem.reference)}


def _is_function(text: str, problem: Problem) -> bool:
    """Whether a text is a program with the function, and has something in it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return bool(functions) and functions[0].name == problem.name and text.strip().count("\n") > 0


def _sampled_pairs(
    problem: Problem, texts: Sequence[str], found: Mapping[str, Outcome], row: Mapping[str, Json]
) -> Iterator[Pair]:
    for text in texts:
        outcome = found[text]
        if not outcome.label or text == problem.reference:
            continue
        if outcome.label == "valid":
            kind = "sampled_same_tree" if _tree(text) == _tree(problem.reference) else f"sampled_{_style(text)}"
        else:
            if outcome.agreed == 0.0:
                continue
            right = "most" if outcome.agreed >= 0.5 else "some" if outcome.agreed > 0.05 else "few"
            kind = f"sampled_right_on_{right}"
        yield _pair(problem, text, outcome.label, "model", kind, row)


def _style(text: str) -> str:
    """How a program is written, in a word."""
    nodes = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    if nodes & {"For", "While"}:
        return "loop"
    if nodes & {"ListComp", "SetComp", "DictComp", "GeneratorExp", "Lambda"}:
        return "comprehension"
    return "condition" if nodes & {"If", "IfExp"} else "expression"


def _tree(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def _drawn(
    some: Sequence[tuple[str, str]], found: Mapping[str, Outcome], label: str, count: int, draw: random.Random
) -> list[tuple[str, str]]:
    """Of each kind the program that agrees with the reference most often, then `count` kinds by chance."""
    best: dict[str, tuple[float, str]] = {}
    for kind, text in some:
        outcome = found[text]
        least = _LEAST_AGREED if label == "wrong" and kind != "too_slow" else -1.0
        if outcome.label == label and outcome.agreed > best.get(kind, (least, ""))[0]:
            best[kind] = (outcome.agreed, text)
    kinds = draw.sample(sorted(best), min(count, len(best)))
    return [(kind, best[kind][1]) for kind in kinds]


def _slow(problem: Problem) -> str:
    head, _, body = problem.reference.partition("\n")
    return f"{head}\n    for _ in range(10 ** 10):\n        pass\n{body}"


def _reaching(problem: Problem, number: int) -> tuple[str, str]:
    kind, before, inside = _REACHING[number % len(_REACHING)]
    head, _, body = problem.reference.partition("\n")
    return f"reaches_for_{kind}", f"{before}\n\n{head}\n{inside}{body}"


def _pair(
    problem: Problem, text: str, label: str, origin: str, kind: str, row: Mapping[str, Json], how: str = "executed"
) -> Pair:
    expert = message(f"```python\n{problem.reference}```")
    return Pair(problem.params(), expert, said(f"```python\n{text}```"), label, origin, kind, how, row)


def main() -> None:
    rows = [json.loads(line) for line in SAMPLES.read_text("utf-8").splitlines()]
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["problem"], []).extend(row["programs"])
    pairs: list[Pair] = []
    sampled = {"valid": 0, "identical": 0}
    for number, problem in enumerate(read_problems()):
        some, counts = pairs_of(problem, number, texts.get(problem.name, []))
        pairs += some
        sampled = {name: sampled[name] + count for name, count in counts.items()}
    (FOLDER / "sampled.json").write_text(json.dumps(sampled) + "\n", encoding="utf-8")
    for (label, origin), count in sorted(write_pairs(FOLDER / "pairs.jsonl.gz", pairs).items()):
        print(f"{label:6} {origin:10} {count}")


if __name__ == "__main__":
    main()
