"""What the bundled model writes for the problems of domain code.

    python -m tests.labelled.making.code_samples MODEL_FOLDER

writes `tests/labelled/code/samples.jsonl`: one line a problem and way of asking, with the functions as they were
sampled. It is kept in the repository, so that the set can be made again without the model. Ways: `plain` (signature and
statement after two other functions), `loop`, `built_in` and `condition` (the same after functions of that style), and
`another` (the reference is shown, and another way to write it is asked for).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.labelled.making.code_problems import Problem, read_problems
from tests.labelled.making.sampling import Sampling, sample

SAMPLES = Path(__file__).parents[1] / "code" / "samples.jsonl"
_WAYS = {
    "plain": Sampling(count=7, max_tokens=64, stop="\n\n", temperatures=(0.5, 0.9)),
    "another": Sampling(count=10, max_tokens=64, stop="\n\n", temperatures=(0.7, 1.0)),
    "loop": Sampling(count=8, max_tokens=64, stop="\n\n", temperatures=(0.6,)),
    "built_in": Sampling(count=8, max_tokens=48, stop="\n\n", temperatures=(0.6,)),
    "condition": Sampling(count=8, max_tokens=64, stop="\n\n", temperatures=(0.6,)),
}
_ADD_ALL = '''def add_all(numbers, extra):
    """Return a new list with extra added to each number."""
'''
_HAS_DIGIT = '''def has_digit(text):
    """Return True if the text has a digit in it, else False."""
'''
_LOOP = """    result = []
    for number in numbers:
        result.append(number + extra)
    return result

"""
_SHOTS = {
    "plain": f"{_ADD_ALL}{_LOOP}{_HAS_DIGIT}    return any(letter.isdigit() for letter in text)\n\n",
    "loop": f"""{_ADD_ALL}{_LOOP}{_HAS_DIGIT}    found = False
    for letter in text:
        if letter.isdigit():
            found = True
    return found

""",
    "built_in": f"""{_ADD_ALL}    return [number + extra for number in numbers]

{_HAS_DIGIT}    return any(map(str.isdigit, text))

""",
    "condition": f"""{_ADD_ALL}    if not numbers:
        return []
    return [number + extra for number in numbers]

{_HAS_DIGIT}    for letter in text:
        if letter in "0123456789":
            return True
    return False

""",
}
_ANOTHER = """# Two ways to write each function.
def add_all(numbers, extra):
    result = []
    for number in numbers:
        result.append(number + extra)
    return result

# Another way:
def add_all(numbers, extra):
    return [number + extra for number in numbers]

def has_digit(text):
    return any(letter.isdigit() for letter in text)

# Another way:
def has_digit(text):
    for letter in text:
        if letter.isdigit():
            return True
    return False

"""
_INDENT = "   "
"""What the body begins with; its fourth space is part of the model's first token."""


def _prompt(problem: Problem, way: str) -> str:
    if way == "another":
        return f"{_ANOTHER}{problem.reference}\n# Another way:\ndef {problem.signature}:\n{_INDENT}"
    return f'{_SHOTS[way]}def {problem.signature}:\n    """{problem.statement}"""\n{_INDENT}'


def _program(problem: Problem, text: str) -> str:
    """The function with what was sampled as its body, up to the first line that is outside of it."""
    lines = f"{_INDENT}{text}".split("\n")
    inside = [place for place, line in enumerate(lines) if not line.startswith("    ")]
    return "\n".join([f"def {problem.signature}:", *lines[: min(inside, default=len(lines))]]) + "\n"


def _lines(problems: list[Problem], model_folder: Path) -> Iterator[dict[str, object]]:
    for way, how in _WAYS.items():
        found = sample(model_folder, [_prompt(one, way) for one in problems], how)
        for problem, texts in zip(problems, found, strict=True):
            yield {"problem": problem.name, "way": way, "programs": [_program(problem, text) for text in texts]}


def main(model_folder: Path) -> None:
    with SAMPLES.open("w", encoding="utf-8") as file:
        for line in _lines(read_problems(), model_folder):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
