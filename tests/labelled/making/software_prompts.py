"""Few-shot prompts under which the bundled model writes new texts of edits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pivotrl_core.seeding import generator
from tests.labelled.making.software_sampling import Manner, Prompt
from tests.labelled.making.software_states import State
from tests.labelled.making.software_tasks import Function

SHOTS = 3
BODIES = Manner("\n\n", 12, (0.5, 0.9), 60)


def edit_prompts(functions: Sequence[Function]) -> list[Prompt]:
    """One prompt a function: three other functions with right bodies of either hand, then its head."""
    return [Prompt(f"edit/{one.package}/{one.name}", _file_so_far(one, functions)) for one in functions]


def _file_so_far(one: Function, functions: Sequence[Function]) -> str:
    rng = generator(0, "pairs", "shots", one.package, one.name)
    others = [other for other in functions if other is not one and len(other.right) < 260]
    chosen = [others[int(index)] for index in rng.choice(len(others), SHOTS, replace=False)]
    texts = []
    for other in chosen:
        bodies = [other.right, *(way for way in other.parts.get("way", ()) if len(way) < 260)]
        texts.append(f"{other.head}\n{bodies[int(rng.integers(len(bodies)))]}\n\n\n")
    return "".join(texts) + one.head  # the line break is the first that the model writes


AGAIN = Manner("\n\n", 10, (0.8,), 60)
"""How bodies are sampled beside the expert's."""
_AGAIN = "# The same function again, written in another way:\n"


def again_prompts(functions: Sequence[Function]) -> list[Prompt]:
    """One prompt a function: two others with both of their bodies, then its own right one, to be written again."""
    return [Prompt(f"again/{one.package}/{one.name}", _twice(one, functions)) for one in functions]


BEGUN = Manner("\n\n", 6, (0.8,), 44)
"""How bodies are sampled of which the beginning is given."""


def begun_prompts(functions: Sequence[Function]) -> list[Prompt]:
    """Up to three prompts a function: its own right body as before, and the first part of a body by hand."""
    prompts = []
    for one in functions:
        for number, body in enumerate([one.right, *one.parts.get("way", ())]):
            share = generator(0, "pairs", "begun", one.package, one.name, number).uniform(0.35, 0.7)
            end = body.rfind(" ", 4, int(len(body) * share))
            if body[:end].strip():
                prompts.append(
                    Prompt(f"begun-{number}/{one.package}/{one.name}", _twice(one, functions), "\n" + body[:end])
                )
    return prompts


def _twice(one: Function, functions: Sequence[Function]) -> str:
    rng = generator(0, "pairs", "again", one.package, one.name)
    others = [other for other in functions if other is not one and len(other.right) < 200]
    chosen = [others[int(index)] for index in rng.choice(len(others), 2, replace=False)]
    shots = "".join(
        f"{other.head}\n{other.right}\n\n\n{_AGAIN}{other.head}\n{other.parts['way'][0]}\n\n\n" for other in chosen
    )
    return f"{shots}{one.head}\n{one.right}\n\n\n{_AGAIN}{one.head}"


LINES = Manner("\n", 12, (0.35, 0.7), 44)
"""How commands and calls of one line are sampled."""
_COMMANDS = (
    ("show the first 20 lines of setup.py", ("head -n 20 setup.py", "sed -n '1,20p' setup.py", "cat setup.py | head -20")),
    ("find all lines in src that mention load_config, with line numbers",
     ("grep -rn load_config src", "grep -rn 'load_config' src/", 'grep -n -r "load_config" ./src')),
    ("run the tests of the class ParserTest in tests/test_parser.py",
     ("python3 -m unittest tests.test_parser.ParserTest", "python3 -m unittest -k ParserTest tests.test_parser")),
    ("append the line 'beta' to notes.txt", ("echo 'beta' >> notes.txt", 'printf "beta\\n" >> notes.txt', "echo beta >> ./notes.txt")),
    ("rename a.txt to b.txt", ("mv a.txt b.txt", "mv ./a.txt ./b.txt")),
    ("count the words of README", ("wc -w README", "wc -w ./README", "cat README | wc -w")),
    ("list all text files, sorted", ("find . -name '*.txt' | sort", "find . -type f -name *.txt | sort")),
    ("set the port in app.ini from 80 to 8080", ("sed -i 's/port = 80/port = 8080/' app.ini", 'sed -i "s|80|8080|g" app.ini')),
    ("print what add(1, 2) returns, with add from calc.ops",
     ("python3 -c 'from calc.ops import add; print(add(1, 2))'", 'python3 -c "import calc.ops; print(calc.ops.add(1, 2))"')),
    ("make the folder build/x with an empty file y in it", ("mkdir -p build/x && touch build/x/y", "mkdir -p build/x; touch build/x/y")),
    ("remove the folder build", ("rm -r build", "rm -rf build/", "rm -rf ./build")),
    ("show lines 5 to 9 of src/app.py", ("sed -n '5,9p' src/app.py", "head -n 9 src/app.py | tail -n 5", "awk 'NR>=5 && NR<=9' src/app.py")),
    ("list the classes that are defined in src/app.py, with line numbers", ('grep -n "^class" src/app.py', "grep -n '^class ' ./src/app.py")),
    ("show the differences between old.py and new.py", ("diff old.py new.py", "diff ./old.py ./new.py")),
)  # fmt: skip
_CALLS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "str_replace_editor": (
        ("look at load in src/app.py, lines 4 to 30", '{"command": "view", "path": "/workspace/proj/src/app.py", "view_range": [4, 30]}'),
        ("look at Parser in lib/parse.py, lines 11 to 52", '{"command": "view", "path": "/workspace/proj/lib/parse.py", "view_range": [10, 52]}'),
        ("look at main in run.py, lines 1 to 18", '{"command": "view", "path": "run.py", "view_range": [1, 19]}'),
    ),
    "Read": (
        ("look at load in src/app.py, lines 4 to 30", '{"file_path": "/home/user/proj/src/app.py", "offset": 4, "limit": 27}'),
        ("look at Parser in lib/parse.py, lines 11 to 50", '{"file_path": "/home/user/proj/lib/parse.py", "offset": 11, "limit": 40}'),
        ("look at main in run.py, lines 1 to 20", '{"file_path": "run.py", "offset": 1, "limit": 20}'),
    ),
    "Grep": (
        ("find where load is defined in src", '{"pattern": "def load", "path": "/home/user/proj/src", "output_mode": "content", "-n": true}'),
        ("find which files mention Parser", '{"pattern": "Parser", "output_mode": "files_with_matches"}'),
        ("find where save is defined in lib", '{"pattern": "def save\\\\(", "path": "lib", "output_mode": "content", "-n": true}'),
    ),
    "Glob": (
        ("list the text files of the folder docs", '{"pattern": "docs/*.txt"}'),
        ("list the Python files of the folder src", '{"pattern": "*.py", "path": "/home/user/proj/src"}'),
    ),
    "search_dir": (
        ("find what mentions load in src", '{"search_term": "load", "dir": "src"}'),
        ("find what mentions Parser in lib", '{"search_term": "Parser", "dir": "./lib"}'),
    ),
    "find_file": (
        ("find the file app.py", '{"file_name": "app.py"}'),
        ("find the file parse.c", '{"file_name": "parse.c", "dir": "."}'),
    ),
}  # fmt: skip


def line_prompts(states: Sequence[State]) -> list[Prompt]:
    """One prompt a state whose expert's call is one line: tasks of the sort with their calls, then the state's task."""
    return [
        Prompt(f"line/{state.id}", _commands(state) if state.sort == "command" else _calls(state)) for state in states
    ]


LINES_AGAIN = Manner("\n", 12, (0.5, 0.8, 1.1), 44)
"""How lines are sampled beside the expert's."""
_SAME = "# or, the same in other words:\n"


def lines_again_prompts(states: Sequence[State]) -> list[Prompt]:
    """One prompt a state: tasks with two calls each, then the state's with the expert's. Of views the plain prompt."""
    return [
        Prompt(f"again/{state.id}", _calls(state) if state.sort == "view" else _line_again(state)) for state in states
    ]


def _line_again(state: State) -> str:
    name = state.expert.name
    if state.sort == "command":
        rng = generator(0, "pairs", "again", state.id)
        chosen = [_COMMANDS[int(index)] for index in rng.choice(len(_COMMANDS), 7, replace=False)]
        shots = "".join(f"# Task: {task}\n$ {commands[0]}\n{_SAME}$ {commands[-1]}\n" for task, commands in chosen)
        return f"{shots}# Task: {state.task}\n$ {state.expert.arguments['command']}\n{_SAME}$"
    shots = "".join(f"{name}({first})\n{_SAME}{name}({second})\n" for first, second in _CALLS_AGAIN[name])
    return f"{shots}{name}({json.dumps(state.expert.arguments)})\n{_SAME}{name}({opening(state)}"


_CALLS_AGAIN: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Grep": (
        ('{"pattern": "def load", "path": "/home/user/proj/src", "output_mode": "content", "-n": true}',
         '{"pattern": "def load\\\\(", "path": "src", "output_mode": "content", "-n": true}'),
        ('{"pattern": "Parser", "output_mode": "files_with_matches"}', '{"pattern": "Parser", "path": ".", "output_mode": "files_with_matches"}'),
        ('{"pattern": "def save", "path": "/home/user/proj/lib", "output_mode": "content", "-n": true}',
         '{"pattern": "def save", "path": "/home/user/proj/lib/", "output_mode": "content", "-n": true, "-i": false}'),
    ),
    "Glob": (
        ('{"pattern": "docs/*.txt"}', '{"pattern": "*.txt", "path": "/home/user/proj/docs"}'),
        ('{"pattern": "src/*.py"}', '{"pattern": "src/*.py", "path": "/home/user/proj"}'),
    ),
    "search_dir": (
        ('{"search_term": "load", "dir": "src"}', '{"search_term": "load", "dir": "./src"}'),
        ('{"search_term": "Parser", "dir": "lib"}', '{"search_term": "Parser", "dir": "lib/"}'),
    ),
    "find_file": (
        ('{"file_name": "app.py"}', '{"file_name": "app.py", "dir": "."}'),
        ('{"file_name": "parse.c"}', '{"file_name": "parse.c", "dir": "./"}'),
    ),
}  # fmt: skip


def _commands(state: State) -> str:
    rng = generator(0, "pairs", "shots", state.id)
    order = [int(index) for index in rng.permutation(len(_COMMANDS))]
    shots = [(task, commands[int(rng.integers(len(commands)))]) for task, commands in (_COMMANDS[at] for at in order)]
    return "".join(f"# Task: {task}\n$ {command}\n" for task, command in shots) + f"# Task: {state.task}\n$"


def _calls(state: State) -> str:
    name = state.expert.name
    shots = "".join(f"Task: {task}\n{name}({arguments})\n" for task, arguments in _CALLS[name])
    return f"{shots}Task: {state.task}\n{name}({opening(state)}"


def opening(state: State) -> str:
    """The first of a call's arguments, which are given: of views all but the lines, of others the first one's name."""
    arguments = json.dumps(state.expert.arguments)
    last = next((name for name in ("view_range", "offset") if name in state.expert.arguments), arguments.split('"')[1])
    return arguments[: arguments.index(f'"{last}":') + len(last) + 3]
