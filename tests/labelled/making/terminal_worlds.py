"""Small workspaces of many kinds, and other copies of each: the same names at the top, other contents.

`world(name, copy)`: copy 0 is the workspace that rows name, the others tell apart what agrees in it by chance. Contents
come from a seeded generator; what lies at the top has the same names in every copy, folders below may hold others.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.workspace import Node, NodeKind

Files = dict[str, str]
PEOPLE = ("ada", "Bob", "carol", "dmitri", "Eve", "farid", "grace", "Hiro", "ines", "jonas")
WORDS = (
    "river",
    "Stone",
    "lamp",
    "orbit",
    "Cedar",
    "mirror",
    "quartz",
    "Harbor",
    "velvet",
    "signal",
    "copper",
    "Ember",
    "lantern",
    "meadow",
    "Nickel",
    "pepper",
)
CITIES = ("Lyon", "Oslo", "Porto", "Turin", "Gdansk", "Bergen", "Cork")


@functools.cache
def world(name: str, copy: int) -> dict[str, Node]:
    """The nodes of a workspace; equal arguments give equal bytes."""
    files = WORLDS[name](random.Random(f"{name}/{copy}"))
    nodes = {path: Node(NodeKind.FILE, text.encode(), path.endswith(".sh")) for path, text in files.items()}
    for path, text in files.items():
        if text.startswith("-> "):
            nodes[path] = Node(NodeKind.LINK, text[3:].encode())
        if path.endswith("/"):
            nodes[path.rstrip("/")] = Node(NodeKind.FOLDER)
            del nodes[path]
    for path in list(nodes):
        while "/" in path:
            path = path.rpartition("/")[0]
            nodes.setdefault(path, Node(NodeKind.FOLDER))
    return _with_history(nodes) if name == "repository" else nodes


def _with_history(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The files as a git repository of one commit each, made by git in the sandbox with fixed times."""
    from pivotrl_core.verifiers.workspace import make_workspace

    script = """
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com
export GIT_AUTHOR_DATE=2024-03-09T10:00:00Z GIT_COMMITTER_DATE=2024-03-09T10:00:00Z
git init -q --template= -b main . ; day=10
git config user.name Ada; git config user.email ada@example.com
commit() { GIT_AUTHOR_DATE="2024-03-${day}T10:00:00Z" GIT_COMMITTER_DATE="2024-03-${day}T10:00:00Z" \
  git commit -q -m "$1"; day=$((day + 1)); }
for file in $(git ls-files -o | sort); do git add "$file"; commit "Add $file"; done
sed -i '$d' README.md; git add README.md; commit 'Shorten the README'
git branch feature/search HEAD~2; git tag v0.1 HEAD~3
echo 'print("draft")' > draft.py; echo '# local' >> src/app.py
git read-tree HEAD
"""
    result = sandbox.run_in_workspace(["/bin/bash", "-c", script], make_workspace(nodes))
    assert result.exit_status == 0, result.stderr
    assert result.tree is not None
    return {path: node for path, node in result.tree.nodes.items() if node.kind is not NodeKind.SPECIAL}


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _perhaps(r: Random, path: str, text: str) -> Files:
    """A file that half of the copies have."""
    return {path: text} if r.random() < 0.5 else {}


def _weblog(r: Random) -> Files:
    ips = [f"10.0.{r.randint(0, 3)}.{r.randint(1, 40)}" for _ in range(6)]
    paths = ("/", "/login", "/api/items", "/api/users", "/static/app.js", "/admin")
    access = [
        f"{r.choice(ips)} - - [{r.randint(10, 12)}/May/2024:{r.randint(0, 23):02}:{r.randint(0, 59):02}:00 +0000] "
        f'"{r.choice(("GET", "GET", "POST"))} {r.choice(paths)} HTTP/1.1" '
        f"{r.choice((200, 200, 200, 301, 404, 500))} {r.choice((404, 200, r.randint(80, 9000), r.randint(80, 9000)))}"
        for _ in range(r.randint(28, 40))
    ]
    levels = ("INFO", "INFO", "WARN", "ERROR", "Error", "DEBUG")

    def app(count: int) -> str:
        return _lines(
            [
                f"2024-05-{r.randint(10, 12)} {r.randint(0, 23):02}:{r.randint(0, 59):02} {r.choice(levels)} "
                f"{r.choice(('db', 'auth', 'cache'))}: "
                f"{r.choice(('timeout after', 'retry', 'connected in', 'failed'))} "
                f"{r.randint(1, 900)}"
                for _ in range(count)
            ]
        )

    return {
        "access.log": _lines(access),
        "app.log": app(r.randint(18, 30)),
        "logs/worker.log": app(r.randint(6, 12)),
        "logs/old/worker.1.log": app(r.randint(4, 9)),
        "logs/old/notes.txt": "rotated ERROR logs\n",
        f"logs/old/worker.{r.randint(2, 9)}.log": app(r.randint(3, 6)),
        "logs/empty.log": "",
        **_perhaps(r, "logs/none/", ""),
    }


def _shop(r: Random) -> Files:
    products = [f"{word.lower()}-{r.choice('abc')}" for word in r.sample(WORDS, 8)]
    sales = ["date,product,region,quantity,price"]
    sales += [
        f"2024-0{r.randint(1, 6)}-{r.randint(1, 28):02},{r.choice(products)},{r.choice(('north', 'south', 'East'))},"
        f"{r.randint(1, 120)},{r.randint(1, 99)}.{r.randint(0, 99):02}"
        for _ in range(r.randint(20, 30))
    ]
    customers = ["id,name,city,age"]
    customers += [f"{i},{r.choice(PEOPLE)},{r.choice(CITIES)},{r.randint(8, 80)}" for i in range(1, r.randint(12, 17))]
    catalogue = [
        {
            "name": name,
            "price": r.randint(2, 90),
            "stock": r.randint(0, 120),
            "tags": r.sample(["new", "sale", "eco"], 2),
        }
        for name in products
    ]
    return {
        "sales.csv": _lines(sales),
        "customers.csv": _lines(customers),
        "products.json": json.dumps(catalogue, indent=2) + "\n",
        "notes.txt": _lines(
            [f"{r.choice(WORDS)} {r.choice(WORDS)} {r.randint(1, 50)}" for _ in range(r.randint(6, 11))]
        ),
        "reports/q1.csv": _lines(sales[: r.randint(5, 9)]),
        "reports/q2.csv": _lines(sales[:1] + sales[r.randint(9, 12) :]),
        "reports/README.md": "# Reports\n\nOne file a quarter.\n",
    }


def _package(r: Random) -> Files:
    names = r.sample(("loader", "parser", "writer", "cache", "router", "schema"), 4)

    def module(name: str) -> str:
        lines = [
            "import os",
            "import json" if r.random() < 0.6 else "import sys",
            "",
            f"LIMIT = {r.randint(1, 99)}",
            "",
        ]
        for number in range(r.randint(2, 4)):
            verb = r.choice(("load", "read", "make", "check"))
            lines += [f"def {verb}_{name}_{number}(path, limit=LIMIT):"]
            lines += [f"    # {r.choice(('TODO', 'todo', 'FIXME', 'Note'))}: {r.choice(WORDS).lower()}"] * (
                r.random() < 0.7
            )
            lines += [f"    return {r.choice(('path', 'limit', 'os.getcwd()'))}", ""]
        lines += ["", "class Old" + name.capitalize() + ":", "    deprecated = True"] * (r.random() < 0.5)
        return _lines(lines)

    files = {f"src/{name}.py": module(name) for name in names}
    tests = {f"tests/test_{name}.py": f"def test_{name}():\n    assert {r.randint(1, 9)}\n" for name in names[:3]}
    return {
        **files,
        **tests,
        "src/__init__.py": "",
        **_perhaps(r, "src/data/gen.py", "def load_table_9():\n    # TODO: rows\n    return 1\n"),
        "src/data/table.json": json.dumps({"rows": r.randint(1, 50)}) + "\n",
        "README.md": f"# Package\n\nInstall it.\n\n## Usage\n\nRun `main.py`. TODO: {r.choice(WORDS)}\n",
        "main.py": f"import sys\n\nVERSION = '1.{r.randint(0, 9)}.0'\n\nif __name__ == '__main__':\n"
        f"    print('version', VERSION)\n    print(len(sys.argv))\n",
        "requirements.txt": _lines(
            [
                f"{name}=={r.randint(0, 4)}.{r.randint(0, 20)}"
                for name in r.sample(("numpy", "requests", "Flask", "attrs", "click", "pyyaml"), 5)
            ]
        ),
        "setup.cfg": f"[metadata]\nname = package\nversion = 1.{r.randint(0, 9)}\n\n[options]\n"
        f"python_requires = >=3.{r.randint(8, 11)}\n",
    }


def _config(r: Random) -> Files:
    port = r.choice((8000, 8080, 9000))
    ini = [
        "[server]",
        f"port = {port}",
        "host = localhost",
        f"debug = {r.choice(('true', 'false'))}",
        "# workers = 8",
        f"workers = {r.randint(1, 8)}",
        "",
        "[database]",
        f"port = {r.choice((5432, 3306))}",
        f"name = app_{r.choice(('dev', 'test'))}",
        "timeout = 30",
        f"pool = {r.randint(2, 30)}",
    ]
    env = [
        f"API_KEY=k{r.randint(1000, 9999)}",
        "# DEBUG=0",
        f"DEBUG={r.randint(0, 1)}",
        "APP_HOME=/srv/app",
        f"LOG_LEVEL={r.choice(('info', 'debug', 'INFO'))}",
        f"PORT={port}",
    ]
    services = ("web", "worker", "db")
    yaml = ["version: 2", "services:"]
    for name in services:
        yaml += [
            f"  {name}:",
            f"    image: {name}:{r.randint(1, 9)}.{r.randint(0, 9)}",
            f"    replicas: {r.randint(1, 5)}",
        ]
    return {
        "app.ini": _lines(ini),
        ".env": _lines(env),
        "compose.yaml": _lines(yaml),
        "settings.json": json.dumps(
            {
                "theme": r.choice(("dark", "light")),
                "limits": {"cpu": r.randint(1, 8), "mem": r.randint(256, 2048)},
                "hosts": r.sample(CITIES, 3),
            },
            indent=2,
        )
        + "\n",
        "conf.d/site-a.conf": f"listen {port};\nserver_name a.example.com;\nroot /srv/a;\n",
        "conf.d/site-b.conf": f"listen {port + 1};\nserver_name b.example.com;\n# root /srv/old;\nroot /srv/b;\n",
        "conf.d/site-c.conf.bak": f"listen {port};\n",
        "hosts.txt": _lines(sorted(r.sample(CITIES, 5))),
        **_perhaps(r, "conf.d/site-d.conf", "listen 1;\n"),
    }


def _notes(r: Random) -> Files:
    def note(title: str) -> str:
        lines = [f"# {title}", ""]
        for _ in range(r.randint(3, 6)):
            lines += [f"- [{r.choice(' x')}] {r.choice(WORDS)} {r.choice(WORDS).lower()}"]
        return _lines([*lines, "", f"See {r.choice(WORDS).lower()}.", f"## {r.choice(WORDS)}", "last line"])

    return {
        "todo.md": note("Todo"),
        "ideas.md": note("Ideas"),
        "journal/2024-01.md": note("January"),
        "journal/2024-02.md": note("February"),
        "journal/2023-12.md": note("December"),
        f"journal/2024-0{r.randint(3, 8)}.md": note("Later"),
        "names.txt": _lines([r.choice(PEOPLE) for _ in range(14)]),
        "draft one.txt": _lines([f"{r.choice(WORDS)} costs $PRICE" for _ in range(r.randint(3, 5))]),
        "price.txt": _lines([f"{word} ${r.randint(1, 99)}" for word in r.sample(WORDS, 6)]),
        "archive/": "",
    }


def _numbers(r: Random) -> Files:
    count = r.randint(16, 24)
    temps = [f"{r.choice(CITIES)}\t{r.randint(-9, 35)}\t{r.randint(900, 1100)}" for _ in range(count)]
    return {
        "numbers.txt": _lines([str(r.randint(1, 250)) for _ in range(count)]),
        "temps.tsv": _lines(["city\ttemp\tpressure", *temps]),
        "words.txt": _lines([r.choice(WORDS) for _ in range(count)]),
        "pairs.txt": _lines([f"{r.choice(WORDS).lower()}:{r.randint(1, 40)}:{r.choice('xyz')}" for _ in range(count)]),
        "matrix.txt": _lines([" ".join(str(r.randint(0, 20)) for _ in range(4)) for _ in range(r.randint(5, 9))]),
        "more/numbers.txt": _lines([str(r.randint(1, 250)) for _ in range(r.randint(5, 9))]),
        "more/blank.txt": _lines([r.choice(("", "x", " ", "y z")) for _ in range(r.randint(8, 12))]),
    }


def _release(r: Random) -> Files:
    versions = ("v1.2", "v1.10", "v1.9")
    files: Files = {}
    for version in versions:
        files[f"releases/{version}/run.sh"] = f"#!/bin/bash\necho {version} $1\nexit {r.randint(0, 1)}\n"
        files[f"releases/{version}/VERSION"] = f"{version}.{r.randint(0, 9)}\n"
    return {
        **files,
        "current": "-> releases/v1.9",
        "deploy.sh": "#!/bin/bash\nset -e\necho deploying $1\n",
        "check.sh": "#!/bin/sh\ntest -f config.env && echo ok\n",
        "config.env": f"RELEASE=v1.9\nHOSTS={r.randint(1, 9)}\n",
        **_perhaps(r, "tmp/z.tmp", "z\n"),
        **_perhaps(r, "tmp/sub/w.tmp", "w\n"),
        "tmp/a.tmp": "x\n" * r.randint(1, 9),
        "tmp/b.tmp": "",
        "tmp/keep.txt": f"{r.randint(1, 99)}\n",
        f"tmp/{r.choice('cdef')}.tmp.bak": "y\n",
        "log/deploy.log": _lines([f"{r.choice(('ok', 'FAIL'))} {v}" for v in r.choices(versions, k=8)]),
    }


def _program(r: Random) -> Files:
    return {
        "main.c": f'#include <stdio.h>\n#include "util.h"\n\nint main(void) {{\n    printf("%d\\n", '
        f"add({r.randint(1, 9)}, "
        f"{r.randint(1, 9)}));\n    return 0;\n}}\n",
        "util.c": '#include "util.h"\n\nint add(int a, int b) {\n    return a + b;\n}\n',
        "util.h": "#ifndef UTIL_H\n#define UTIL_H\nint add(int a, int b);\n"
        + "int sub(int a, int b);\n" * r.randint(0, 1)
        + "#endif\n",
        "Makefile": "CC = gcc\n\nall: main\n\nmain: main.c util.c\n\t$(CC) -o main main.c util.c\n\n"
        "clean:\n\trm -f main *.o\n",
        "docs/guide.txt": _lines(
            [f"{r.choice(WORDS)} {r.choice(('int', 'char'))} {r.choice(WORDS)}" for _ in range(r.randint(5, 8))]
        ),
        "docs/api.h": "/* int only */\nint api(void);\n",
        "build/main.o": "object\n",
        **_perhaps(r, "build/api.o", "object\n"),
        **_perhaps(r, "build/deep/x.o", "object\n"),
        **_perhaps(r, "docs/no.h", "void f(void);\n"),
        "build/util.o": f"object {r.randint(1, 99)}\n",
        "build/log.txt": _lines(
            [r.choice(("warning: unused", "error: missing", "note: here")) for _ in range(r.randint(5, 9))]
        ),
    }


def _repository(r: Random) -> Files:
    return {
        "README.md": _lines(["# Tool", "", *[f"{r.choice(WORDS)} line" for _ in range(r.randint(2, 4))]]),
        "src/app.py": f"import util\n\nprint(util.f({r.randint(1, 9)}))\n",
        "src/util.py": f"def f(x):\n    return x + {r.randint(1, 9)}\n",
        "LICENSE": "MIT\n",
        "CHANGELOG": _lines([f"0.{i} {r.choice(WORDS)}" for i in range(r.randint(2, 4))]),
    }


def _book(r: Random) -> Files:
    def chapter(number: int) -> str:
        lines = [f"Chapter {number}", ""]
        for _ in range(r.randint(6, 10)):
            lines.append(
                " ".join(
                    r.choice(("the", "The", "a", r.choice(WORDS), r.choice(WORDS).lower(), "and"))
                    for _ in range(r.randint(4, 8))
                )
                + r.choice((".", ".", "!", "  "))
            )
        return _lines(lines)

    files = {f"chapters/ch{number:02}.txt": chapter(number) for number in range(1, r.randint(5, 7))}
    return {
        **files,
        "poem.txt": chapter(0),
        "dictionary.txt": _lines(sorted(r.sample(WORDS, 12), key=str.lower)),
        "tabs.txt": _lines([f"\t{r.choice(WORDS)}\t{r.choice(WORDS)} " for _ in range(r.randint(4, 7))]),
        "dos.txt": "".join(f"{r.choice(WORDS)} {r.choice(WORDS)}\r\n" for _ in range(r.randint(3, 6))),
    }


def _events(r: Random) -> Files:
    def event(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "type": r.choice(("click", "view", "buy")),
            "user": r.choice(PEOPLE),
            "ms": r.randint(1, 3000),
        }

    users = [
        {"name": name, "email": f"{name.lower()}@example.com", "active": r.random() < 0.5, "score": r.randint(0, 99)}
        for name in r.sample(PEOPLE, 7)
    ]
    return {
        "events.jsonl": _lines([json.dumps(event(number)) for number in range(r.randint(14, 22))]),
        "users.json": json.dumps({"users": users, "total": len(users)}) + "\n",
        "ids.txt": _lines([str(r.randint(1, 30)) for _ in range(12)]),
        "seen.txt": _lines([str(r.randint(1, 30)) for _ in range(9)]),
        **_perhaps(r, "parts/six.json", '{"n": 6, "tag": "six"}\n'),
        "parts/one.json": json.dumps({"n": r.randint(1, 9), "tag": r.choice(WORDS)}) + "\n",
        "parts/two.json": json.dumps({"n": r.randint(1, 9), "tag": r.choice(WORDS)}, indent=1) + "\n",
    }


def _attic(r: Random) -> Files:
    files = {
        f"photos/img_{r.randint(1, 40):03}.{r.choice(('jpg', 'JPG', 'png'))}": "p" * r.randint(1, 3000)
        for _ in range(7)
    }
    files |= {
        f"docs/{word.lower()}.{r.choice(('txt', 'md', 'txt.bak'))}": f"{word}\n" * r.randint(0, 40)
        for word in r.sample(WORDS, 6)
    }
    return {
        **files,
        "docs/deep/er/end.txt": "end\n",
        "docs/empty/": "",
        "a.txt": "alpha\n" * r.randint(1, 3),
        "b.txt": "beta\n",
        "copy of a.txt": "alpha\n",
        ".hidden": "secret\n",
        "big.bin": "0" * r.randint(2000, 9000),
        "list.txt": _lines(sorted(files)[:5]),
        "photos/index.txt": _lines(sorted(files)),
    }


def _testbed(r: Random) -> Files:
    """After the repository that mini-swe-agent's recorded trajectory works in; written anew."""
    return {
        "tests/missing_colon.py": "#!/usr/bin/env python3\n\n\n"
        "def division(a: float, b: float) -> float\n    return a/b\n\n\n"
        'if __name__ == "__main__":\n    print(division(123, 15))\n\n',
        "tests/existing_lint_error.py": f"import os\n\nx = {r.randint(1, 9)}\n",
        "tests/filetoread.txt": f"{r.choice(WORDS)}\n",
        "src/testpkg/__init__.py": "",
        "src/testpkg/tribonacci.py": f"def tribonacci(n):\n    return n + {r.randint(1, 9)}\n",
        "README.md": "# Test repository\n",
        "pyproject.toml": '[project]\nname = "test"\n',
        "oauthlib/__init__.py": f"__version__ = '3.{r.randint(0, 2)}'\n",
        "oauthlib/oauth1/__init__.py": "class Client:\n    pass\n",
        "oauthlib/oauth2/__init__.py": "class WebApplicationServer:\n"
        "    def __init__(self, validator, grant=None):\n        pass\n"
        "\n\nclass AuthorizationCodeGrant:\n    pass\n\n\ndef code_challenge_method_s256(v):\n    return v\n",
        "redbot/__init__.py": "class VersionInfo:\n    pass\n" + "# class VersionInfo2\n" * r.randint(0, 1),
    }


WORLDS: Mapping[str, Callable[[Random], Files]] = {
    "weblog": _weblog,
    "shop": _shop,
    "package": _package,
    "config": _config,
    "notes": _notes,
    "numbers": _numbers,
    "release": _release,
    "program": _program,
    "repository": _repository,
    "book": _book,
    "events": _events,
    "attic": _attic,
    "testbed": _testbed,
}
