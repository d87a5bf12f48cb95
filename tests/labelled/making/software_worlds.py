"""Trees of the repositories, varied copies of them, and what commands and functions do in them, run in the sandbox."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.sandbox import SandboxLimits
from pivotrl_core.verifiers.workspace import Node, NodeKind, make_workspace
from tests.labelled.making.software_tasks import Function, module_text, test_text

Tree = dict[str, str]
"""Texts by path; nothing else is in these repositories."""
_DEMO = (
    '"""Shows what {package} does."""\n\nfrom {package} import {module}\n\n\n'
    'if __name__ == "__main__":\n    print({module}.{name}.__doc__)\n'
)
_README = (
    "# {package}\n\nSmall functions: {names}.\n\nRun the tests with `python3 -m unittest`.\n\n"
    "## Changes\n\n- 0.1: first version\n"
)
_SETTINGS = "[metadata]\nname = {package}\nversion = 0.1\n\n[options]\npackages = {package}\npython_requires = >=3.9\n"


def repository(functions: Sequence[Function]) -> Tree:
    """The files of one package: modules with all their issues open, an older copy of the first one, tests, papers."""
    package = functions[0].package
    modules = list(dict.fromkeys(one.module for one in functions))
    tree = {f"{package}/{module}.py": module_text(list(functions), module) for module in modules}
    older = module_text(list(functions), modules[0]).replace('"""\n', ' Kept for old callers."""\n', 1)
    names = ", ".join(one.name for one in functions)
    return tree | {
        f"{package}/__init__.py": "",
        f"{package}/legacy/__init__.py": "",
        f"{package}/legacy/{modules[0]}.py": older,
        "tests/__init__.py": "",
        **{f"tests/test_{module}.py": test_text(list(functions), module) for module in modules},
        "examples/demo.py": _DEMO.format(package=package, module=modules[0], name=functions[0].name),
        "README.md": _README.format(package=package, names=names),
        "docs/notes.txt": "".join(f"{number}. Look at {one.name}.\n" for number, one in enumerate(functions, start=1)),
        "setup.cfg": _SETTINGS.format(package=package),
    }


def varied(tree: Tree, functions: Sequence[Function]) -> list[Tree]:
    """Copies as the repository might as well be: longer files, further callers and files, other words in papers."""
    grown = {path: text + "\n\nADDED = 1\n"
             if path.endswith(".py") and "/" in path and not path.startswith("tests/") and text else text
             for path, text in tree.items()}  # fmt: skip
    first = functions[0]
    shifted = {path: text.replace('."""\n', '."""\n\n# Numbers and texts are never changed in place.\n', 1)
               if path.endswith(".py") else text for path, text in tree.items()}  # fmt: skip
    more = dict(tree)
    for one in functions:
        call = (
            f"from {first.package}.{one.module} import {one.name}\n\nvalue = {one.name}\n# {one.name.upper()} is used\n"
        )
        more[f"{first.package}/uses/{one.name}.py"] = call
        more[f"tests/test_{one.module}.py"] += f"\n# {one.name} is looked at\n"
    more["tests/test_calls.py"] = f"import unittest\n\nfrom {first.package} import {first.module}\n"
    more["README.md"] += "".join(f"- 0.0: {one.name}\n" for one in functions)
    more["docs/more.txt"] = "more\n"
    return [grown, shifted, more]


def nodes_of(tree: Tree) -> dict[str, Node]:
    """A tree as a workspace has it, folders included."""
    nodes: dict[str, Node] = {}
    for path, text in sorted(tree.items()):
        for above in reversed(PurePosixPath(path).parents[:-1]):
            nodes[str(above)] = Node(NodeKind.FOLDER)
        nodes[path] = Node(NodeKind.FILE, text.encode())
    return nodes


def save(tree: Tree, path: Path) -> None:
    """Write a tree as a packed archive, always the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(make_workspace(nodes_of(tree)).image, mtime=0))


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did: lines that it printed, its status, files that it left. None of it is normalised further."""

    printed: str
    status: int | None
    files: Mapping[str, str]
    cut: bool


_SECONDS = re.compile(r"\b\d+\.\d+s\b")


def run(command: str, tree: Tree) -> Ran:
    """Run a command in a copy of a tree."""
    return run_all([command], tree)[0]


def run_all(commands: Sequence[str], tree: Tree) -> list[Ran]:
    """Run commands, each in a copy of its own of a tree; all in one sandbox, for starting one costs most."""
    nodes = nodes_of(tree)
    files = {"run.py": _RUNNER, "tree.tar": make_workspace(nodes).image, "commands.json": json.dumps(list(commands))}
    limits = SandboxLimits(wall_seconds=300, cpu_seconds=60, output_bytes=16_000_000)
    result = sandbox.run(["/usr/bin/python3", "-B", "run.py"], files, limits)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(told) == len(commands), (commands, result.stop, result.stderr[-500:])
    return [Ran(_SECONDS.sub("_s", printed), status, left, status is None) for printed, status, left in told]


_RUNNER = """
import json, os, shutil, subprocess, tarfile
for number, command in enumerate(json.load(open("commands.json"))):
    home = os.path.abspath("box")
    shutil.rmtree(home, ignore_errors=True)
    tarfile.open("tree.tar").extractall(home)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "HOME": home}
    line = ["/bin/bash", "--norc", "--noprofile", "-c", 'exec 2>&1; eval "$1"', "bash", command]
    process = subprocess.Popen(line, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               start_new_session=True)
    try:
        printed, status = process.communicate(timeout=4)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        printed, status = b"", None
    left = {}
    for folder, folders, files in os.walk(home):
        for name in folders + files:
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, home)
            if "__pycache__" not in inside:
                text = "/" if os.path.isdir(path) else "@" if os.path.islink(path) else ""
                runs = "*" if not text and os.access(path, os.X_OK) else ""
                left[inside] = (text or open(path, errors="replace").read()) + runs
    print(json.dumps([printed.decode("utf-8", "replace")[:100000], status, left]), flush=True)
"""


_DRIVER = """
import copy, importlib.util, json, os, select, signal
from itertools import product
name, inputs = json.load(open("job.json"))


def plain(value):
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, (int, float)):
        return repr(round(float(value), 9))
    if isinstance(value, dict):
        return "{" + ",".join(f"{plain(k)}:{plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "(" + ",".join(map(plain, value)) + ")"
    return repr(value) if isinstance(value, (set, frozenset)) else type(value).__name__


def tell(path):
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    told = []
    for arguments in eval(inputs):
        given = copy.deepcopy(arguments)
        try:
            told.append(plain(getattr(module, name)(*given)) + plain(given))
        except Exception as error:
            told.append(type(error).__name__ + plain(given))
    return told


def apart(path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        try:
            text = json.dumps(tell(path))
        except BaseException:
            text = json.dumps("fails")
        with open(writing, "w") as file:
            file.write(text)
        os._exit(0)
    os.close(writing)
    told = b""
    while select.select([reading], [], [], 4)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        told += part
    else:
        os.kill(child, signal.SIGKILL)
        told = b""
    os.waitpid(child, 0)
    os.close(reading)
    return json.loads(told) if told else "hangs"


for number in range(int(open("count").read())):
    print(json.dumps(apart(f"c{number}.py")), flush=True)
"""


def outcomes(one: Function, texts: Sequence[str]) -> list[object]:
    """What a function of each module's text gives for the hidden inputs: results, exceptions, arguments afterwards."""
    files: dict[str, str | bytes] = {f"c{number}.py": text for number, text in enumerate(texts)}
    files |= {"job.json": json.dumps([one.name, one.part("inputs")]), "count": str(len(texts))}
    told: list[object] = []
    script = files | {"drive.py": _DRIVER}
    result = sandbox.run(
        ["/usr/bin/python3", "-B", "drive.py"],
        script,
        SandboxLimits(wall_seconds=120, cpu_seconds=60, output_bytes=8_000_000),
    )
    for line in result.stdout.splitlines():
        told.append(json.loads(line))
    assert len(told) == len(texts), (one.name, result.stop, result.stderr[-500:])
    return told
