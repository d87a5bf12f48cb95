"""States at which the expert runs a command, with commands written by hand beside it.

Each entry: the task in one sentence, the expert's command, commands meant to do the same, commands meant to do
something else that looks like it. What each of them is, the sandbox says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.labelled.making.software_tasks import Function, class_name


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do in a shell. `listing`: the order of what is printed is that of the file system."""

    kind: str
    text: str
    expert: str
    same: tuple[str, ...]
    other: tuple[str, ...]
    listing: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The function that a state is about, its neighbour in the same module, and the lines it stands in."""

    one: Function
    mate: Function
    first: int
    last: int
    older: str
    """The module of which there is an older copy."""

    @property
    def path(self) -> str:
        return self.one.path

    @property
    def test(self) -> str:
        return f"tests.test_{self.one.module}"

    @property
    def case(self) -> str:
        return self.one.part("tests").splitlines()[0].rpartition(" == ")[0]


def _run_tests(at: Place) -> Task:
    mine, other = class_name(at.one), class_name(at.mate)
    return Task(
        "run_tests", f"run the tests of {at.one.name}, the class {mine} in tests/test_{at.one.module}.py",
        f"python3 -m unittest {at.test}.{mine}",
        (f"python3 -B -m unittest {at.test}.{mine}", f"python3 -m unittest -k {mine} {at.test}",
         f"PYTHONPATH=. python3 -m unittest '{at.test}.{mine}'"),
        (f"python3 -m unittest {at.test}.{other}", f"python3 -m unittest {at.test}", f"python3 -m unittest -f {at.test}.{mine}",
         f"python3 -m unittest {at.test}.{mine}.test_2"),
    )  # fmt: skip


def _definition(at: Place) -> Task:
    name, package = at.one.name, at.one.package
    return Task(
        "grep_definition", f"find where {name} is defined in the folder {package}, with line numbers",
        f'grep -rn "def {name}" {package}',
        (f"grep -nr 'def {name}' {package}/", f'grep -rnF "def {name}(" {package}', f'grep -rn -e "def {name}" ./{package}',
          f'grep -RnE "def +{name}" {package} | sort'),
        (f'grep -rn "def {at.mate.name}" {package}', f'grep -rl "def {name}" {package}', f'grep -rn "def {name}" tests',
         f'grep -n "def {name}" {at.path}', f'grep -rnw "{name}" .'),
        listing=True,
    )  # fmt: skip


def _lines(at: Place) -> Task:
    path, first, last = at.path, at.first, at.last
    return Task(
        "show_lines", f"show lines {first} to {last} of {path}",
        f"sed -n '{first},{last}p' {path}",
        (f'sed -n "{first},{last}p" ./{path}', f"head -n {last} {path} | tail -n {last - first + 1}",
         f"awk 'NR>={first} && NR<={last}' {path}", f"cat {path} | sed -n '{first},{last}p'",
         f"tail -n +{first} {path} | head -n {last - first + 1}"),
        (f"sed -n '{first},{last - 1}p' {path}", f"head -n {last} {path} | tail -n {last - first}",
         f"sed -n '{first}p;{last}p' {path}", f"awk 'NR>{first} && NR<={last}' {path}",
         f"sed -n '{first + 3},{last + 3}p' {path}", f"sed '{first},{last}d' {path}"),
    )  # fmt: skip


def _files(at: Place) -> Task:
    return Task(
        "list_files", "list all Python files of the repository, sorted",
        'find . -name "*.py" | sort',
        ("find -name '*.py' | sort", "find . -type f -name '*.py' | sort", "find . -iname *.py | LC_ALL=C sort",
         "find . -name \\*.py -print | sort"),
        ('find . -name "test*.py" | sort', 'find . -name "*.py" -maxdepth 2 | sort', f'find {at.one.package} -name "*.py" | sort',
         'find . -name "*.py" | sort -r', 'find . -name "*.p" | sort', 'find . -name "*.py" | wc -l'),
    )  # fmt: skip


def _count(at: Place) -> Task:
    return Task(
        "count_lines", f"count the lines of {at.path}", f"wc -l {at.path}",
        (f"wc --lines {at.path}", f"wc -l ./{at.path}", f"wc -l < {at.path} | sed 's|$| {at.path}|'"),
        (f"wc -w {at.path}", f"wc -c {at.path}", f"wc -l tests/test_{at.one.module}.py", f"grep -c return {at.path}"),
    )  # fmt: skip


def _reproduce(at: Place) -> Task:
    module, name = f"{at.one.package}.{at.one.module}", at.one.name
    return Task(
        "reproduce", f"print what {at.case} returns, with {name} from {module}",
        f"python3 -c 'from {module} import {name}; print({at.case})'",
        (f"python3 -c 'import {module} as m; {name} = m.{name}; print({at.case})'",
         f"python3 - <<'EOF'\nfrom {module} import {name}\nprint({at.case})\nEOF",
         f"echo 'from {module} import {name}; print({at.case})' | python3"),
        (f"python3 -c 'from {module} import {name}; {at.case}'", f"python3 -c 'from {module} import {at.mate.name}; print({at.mate.name})'",
         f"python3 -c 'from {module} import {name}; print({name})'", f"python3 -c 'print({at.case})'"),
    )  # fmt: skip


def _diff(at: Place) -> Task:
    module, package = at.older, at.one.package
    return Task(
        "diff", f"show the differences between {package}/{module}.py and its copy in {package}/legacy",
        f"diff {package}/{module}.py {package}/legacy/{module}.py",
        (f"diff ./{package}/{module}.py ./{package}/legacy/{module}.py", f"diff {package}/{module}.py {package}/legacy",
         f"diff --normal {package}/{module}.py {package}/legacy/{module}.py"),
        (f"diff {package}/legacy/{module}.py {package}/{module}.py", f"diff -q {package}/{module}.py {package}/legacy/{module}.py",
         f"diff {package}/{module}.py {package}/{module}.py", f"diff -y {package}/{module}.py {package}/legacy/{module}.py"),
    )  # fmt: skip


def _outline(at: Place) -> Task:
    return Task(
        "outline", f"list the functions that are defined in {at.path}, with line numbers", f'grep -n "^def " {at.path}',
        (f"grep -n '^def ' {at.path}", f'grep -nE "^def\\s" {at.path}', f'cat {at.path} | grep -n "^def "',
         f"grep --line-number ^def {at.path}", f"awk '/^def /{{print NR\":\"$0}}' {at.path}"),
        (f'grep -c "^def " {at.path}', f'grep "^def " {at.path}', f'grep -n "^class " {at.path}', f'grep -nv "^def " {at.path}',
         f'grep -n "^def {at.one.name}" {at.path}'),
    )  # fmt: skip


def _version(at: Place) -> Task:
    return Task(
        "change_version", "set the version in setup.cfg from 0.1 to 0.2", "sed -i 's/version = 0.1/version = 0.2/' setup.cfg",
        ('sed -i "s|version = 0.1|version = 0.2|" ./setup.cfg', "sed -i 's/^version = .*/version = 0.2/' setup.cfg",
         "sed 's/version = 0.1/version = 0.2/' setup.cfg > /tmp/new && cat /tmp/new > setup.cfg", "sed -i '3s/0.1/0.2/' setup.cfg"),
        ("sed 's/version = 0.1/version = 0.2/' setup.cfg", "sed -i 's/version = 0.1/version = 0.3/' setup.cfg",
         "sed -i 's/version = 0.1/version = 0.2/' README.md", "sed -i 's/version = 0.1/0.2/' setup.cfg", "sed -i 's/0.1/0.2/' README.md"),
    )  # fmt: skip


def _note(at: Place) -> Task:
    line = f"- 0.2: {at.one.name} mended"
    return Task(
        "append_note", f"append the line '{line}' to README.md", f"echo '{line}' >> README.md",
        (f'echo "{line}" >> ./README.md', f"printf '%s\\n' '{line}' >> README.md", f"cat >> README.md <<'EOF'\n{line}\nEOF",
         f"echo '{line}' | tee -a README.md > /dev/null"),
        (f"echo '{line}' > README.md", f"printf '%s' '{line}' >> README.md", f"echo '{line}' >> README", f"echo {line.upper()} >> README.md",
         f"echo '{line[:-1]}' >> README.md"),
    )  # fmt: skip


def _folder(at: Place) -> Task:
    return Task(
        "new_file", "make the folder docs/api with an empty file index.md in it", "mkdir -p docs/api && touch docs/api/index.md",
        ("mkdir docs/api; touch docs/api/index.md", "mkdir --parents docs/api && : > docs/api/index.md",
         "mkdir -p ./docs/api/ && touch ./docs/api/index.md", "mkdir docs/api && cp /dev/null docs/api/index.md"),
        ("mkdir -p docs/api && touch docs/index.md", "mkdir -p docs && touch docs/api", "mkdir -p docs/api && echo > docs/api/index.md",
         "mkdir -p doc/api && touch doc/api/index.md", "mkdir -p docs/api/index.md"),
    )  # fmt: skip


def _remove(at: Place) -> Task:
    package = at.one.package
    return Task(
        "remove_folder", f"remove the folder {package}/legacy with all that is in it", f"rm -r {package}/legacy",
        (f"rm -rf {package}/legacy", f"rm -r ./{package}/legacy/", f"find {package}/legacy -delete", f"rm -R -- {package}/legacy"),
        (f"rm -r {package}/legacy/*", f"rm {package}/legacy/*.py", f"rm -r {package}", f"rmdir {package}/legacy", "rm -rf legacy"),
    )  # fmt: skip


def _rename(at: Place) -> Task:
    return Task(
        "rename_file", "rename examples/demo.py to examples/tour.py", "mv examples/demo.py examples/tour.py",
        ("cp examples/demo.py examples/tour.py && rm examples/demo.py", "mv ./examples/demo.py ./examples/tour.py",
         "mv examples/{demo,tour}.py", "mv -f -- examples/demo.py examples/tour.py"),
        ("cp examples/demo.py examples/tour.py", "mv examples/demo.py tour.py", "mv examples/demo.py examples/tours.py",
         "ln -s demo.py examples/tour.py"),
    )  # fmt: skip


def _end(at: Place) -> Task:
    return Task(
        "show_end", f"show the last 12 lines of {at.path}", f"tail -n 12 {at.path}",
        (f"tail -12 {at.path}", f"tail --lines=12 ./{at.path}", f"cat {at.path} | tail -n12"),
        (f"tail -n +12 {at.path}", f"head -n 12 {at.path}", f"tail -n 11 {at.path}", f"tail -c 12 {at.path}",
         f"tail -n 12 tests/test_{at.one.module}.py"),
    )  # fmt: skip


def _used(at: Place) -> Task:
    name = at.one.name
    return Task(
        "grep_usage", f"find all lines in tests that mention {name}, with line numbers", f"grep -rn '{name}' tests",
        (f'grep -nr "{name}" tests/', f"grep -rn {name} ./tests", f"grep -Rn -F '{name}' tests", f"grep -n {name} -r tests | sort"),
        (f"grep -rn '{at.mate.name}' tests", f"grep -rn '{name}' {at.one.package}", f"grep -rc '{name}' tests", f"grep -rnx '{name}' tests",
         f"grep -rnv '{name}' tests", f"grep -rn '{name}(' tests"),
        listing=True,
    )  # fmt: skip


TASKS: Sequence[Callable[[Place], Task]] = (
    _run_tests, _definition, _lines, _files, _count, _reproduce, _diff, _outline, _version, _note, _folder, _remove,
    _rename, _end, _used,
)  # fmt: skip
