"""Small repositories with an open issue in each function, read from `software_tasks/*.txt`.

A file describes one repository: lines `= PACKAGE MODULE` begin a module, `# NAME` a function, `- KIND` one of its
parts: the head with its docstring, the issue, the wrong body that stands in the tree, the expert's body (right), other
right bodies (way), bodies that look right (slip), tests that the repository has, and inputs for labels, which no row
shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("software_tasks")


@dataclass(slots=True)
class Function:
    """One function with its issue; bodies end without a line break."""

    package: str
    module: str
    name: str
    parts: dict[str, list[str]] = field(default_factory=dict)

    def part(self, kind: str) -> str:
        """The only part of a kind."""
        (text,) = self.parts[kind]
        return text

    @property
    def head(self) -> str:
        return self.part("head")

    @property
    def wrong(self) -> str:
        return self.part("wrong")

    @property
    def right(self) -> str:
        return self.part("right")

    @property
    def path(self) -> str:
        return f"{self.package}/{self.module}.py"


def read_tasks() -> list[Function]:
    """All functions of all files, in the order of files and lines."""
    return [function for path in sorted(FOLDER.glob("*.txt")) for function in _read(path.read_text(encoding="utf-8"))]


def _read(text: str) -> list[Function]:
    functions: list[Function] = []
    package = module = kind = ""
    lines: list[str] = []

    def close() -> None:
        if kind:
            functions[-1].parts.setdefault(kind, []).append("\n".join(lines))
        lines.clear()

    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "=":
            close()
            kind = ""
            package, module = rest.split()
        elif mark == "#":
            close()
            kind = "head"
            functions.append(Function(package, module, rest))
        elif mark == "-":
            close()
            kind = rest
        else:
            lines.append(line)
    close()
    return functions


def module_text(functions: list[Function], module: str, bodies: Mapping[str, str] | None = None) -> str:
    """A module's text: the wrong bodies, but for those that `bodies` has for a function's name."""
    chosen = [one for one in functions if one.module == module]
    texts = [f"{one.head}\n{(bodies or {}).get(one.name, one.wrong)}\n" for one in chosen]
    return f'"""{module.capitalize()}: small functions of {chosen[0].package}."""\n\n\n' + "\n\n".join(texts)


def test_text(functions: list[Function], module: str) -> str:
    """The repository's tests of a module: a class for each function."""
    chosen = [one for one in functions if one.module == module]
    names = ", ".join(one.name for one in chosen)
    parts = [f"import unittest\n\nfrom {chosen[0].package}.{module} import {names}\n"]
    for one in chosen:
        cases = [_case(number, line) for number, line in enumerate(one.part("tests").splitlines(), start=1)]
        parts.append(f"\nclass {class_name(one)}(unittest.TestCase):\n" + "\n".join(cases))
    return "\n".join(parts) + '\n\nif __name__ == "__main__":\n    unittest.main()\n'


def class_name(one: Function) -> str:
    return "".join(word.capitalize() for word in one.name.split("_")) + "Test"


def _case(number: int, line: str) -> str:
    if line.startswith("ValueError: "):
        return f"    def test_{number}(self):\n        with self.assertRaises(ValueError):\n            {line[12:]}\n"
    left, _, right = line.rpartition(" == ")
    return f"    def test_{number}(self):\n        self.assertEqual({left}, {right})\n"
