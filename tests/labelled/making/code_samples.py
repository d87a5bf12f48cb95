"""What the bundled model writes for the problems of domain code.

    python -m tests.labelled.making.code_samples MODEL_FOLDER

writes `tests/labelled/code/samples.jsonl`: one line a problem, with the functions as they were sampled. It is kept in
the repository, so that the set can be made again without the model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.labelled.making.code_problems import Problem, read_problems
from tests.labelled.making.sampling import Sampling, sample

SAMPLES = Path(__file__).parents[1] / "code" / "samples.jsonl"
_SHOTS = '''def add_all(numbers, extra):
    """Return a new list with extra added to each number."""
    result = []
    for number in numbers:
        result.append(number + extra)
    return result

def has_digit(text):
    """Return True if the text has a digit in it, else False."""
    return any(letter.isdigit() for letter in text)

'''


_INDENT = "   "
"""What the body begins with; its fourth space is part of the model's first token."""


def _prompt(problem: Problem) -> str:
    return f'{_SHOTS}def {problem.signature}:\n    """{problem.statement}"""\n{_INDENT}'


def _program(problem: Problem, text: str) -> str:
    """The function with what was sampled as its body, up to the first line that is outside of it."""
    lines = f"{_INDENT}{text}".split("\n")
    inside = [place for place, line in enumerate(lines) if not line.startswith("    ")]
    return "\n".join([f"def {problem.signature}:", *lines[: min(inside, default=len(lines))]]) + "\n"


def main(model_folder: Path) -> None:
    problems = read_problems()
    how = Sampling(count=7, max_tokens=64, stop="\n\n", temperatures=(0.5, 0.9))
    with SAMPLES.open("w", encoding="utf-8") as file:
        for problem, texts in zip(problems, sample(model_folder, [_prompt(one) for one in problems], how), strict=True):
            programs = [_program(problem, text) for text in texts]
            file.write(json.dumps({"problem": problem.name, "programs": programs}, ensure_ascii=False) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
