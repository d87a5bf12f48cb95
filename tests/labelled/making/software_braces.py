"""Edits of JavaScript, TypeScript, C, Go and Java, where nothing is executed: labels hold by construction.

What is valid differs from the expert's edit in white space between tokens, comments, the path's spelling or how much
of the same text is replaced by itself; what is wrong has another operator, constant, name, order or file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.labelled.making.software_dialects import CLAUDE, OPENHANDS, Call
from tests.labelled.making.software_states import Pair, State, history
from tests.labelled.making.software_worlds import Tree


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file, what takes its place, and texts that look like that and do something else."""

    path: str
    issue: str
    old: str
    new: str
    wrong: tuple[tuple[str, str], ...]


EDITS = (
    Edit("src/cart.js", "total() leaves out the last item.", "  for (let i = 0; i < items.length - 1; i++) {\n    sum += items[i].price;\n  }",
         "  for (let i = 0; i < items.length; i++) {\n    sum += items[i].price;\n  }",
         (("operator", "  for (let i = 0; i <= items.length; i++) {\n    sum += items[i].price;\n  }"),
          ("constant", "  for (let i = 1; i < items.length; i++) {\n    sum += items[i].price;\n  }"),
          ("operator", "  for (let i = 0; i < items.length; i++) {\n    sum = items[i].price;\n  }"))),
    Edit("src/format.js", "Prices have no currency.", "  return value.toFixed(2);", '  const text = value.toFixed(2);\n  return text + " EUR";',
         (("constant", '  const text = value.toFixed(0);\n  return text + " EUR";'), ("constant", '  const text = value.toFixed(2);\n  return text + "EUR";'),
          ("order", '  const text = value.toFixed(2);\n  return " EUR" + text;'))),
    Edit("src/user.ts", "Guests are let in.", "  if (user.role) {\n    return true;\n  }", '  if (user.role !== "guest") {\n    return true;\n  }',
         (("operator", '  if (user.role === "guest") {\n    return true;\n  }'), ("constant", '  if (user.role !== "Guest") {\n    return true;\n  }'),
          ("branch", '  if (user.role !== "guest") {\n    return false;\n  }'))),
    Edit("src/ring.c", "The ring buffer overflows.", "    ring->head = ring->head + 1;", "    ring->head = (ring->head + 1) % ring->size;",
         (("other_name", "    ring->tail = (ring->head + 1) % ring->size;"), ("operator", "    ring->head = ring->head + 1 % ring->size;"),
          ("constant", "    ring->head = (ring->head + 2) % ring->size;"))),
    Edit("src/list.c", "The last node is never freed.", "    while (node->next != NULL) {\n        free_node(node);\n    }",
         "    while (node != NULL) {\n        struct node *next = node->next;\n        free_node(node);\n        node = next;\n    }",
         (("order", "    while (node != NULL) {\n        free_node(node);\n        struct node *next = node->next;\n        node = next;\n    }"),
          ("missing_statement", "    while (node != NULL) {\n        struct node *next = node->next;\n        free_node(node);\n    }"),
          ("operator", "    while (node == NULL) {\n        struct node *next = node->next;\n        free_node(node);\n        node = next;\n    }"))),
    Edit("src/parse.c", "Negative numbers are read as zero.", "    if (isdigit(*text))\n        return atoi(text);",
         "    if (isdigit(*text) || *text == '-')\n        return atoi(text);",
         (("operator", "    if (isdigit(*text) && *text == '-')\n        return atoi(text);"), ("constant", "    if (isdigit(*text) || *text == '+')\n        return atoi(text);"),
          ("other_name", "    if (isalpha(*text) || *text == '-')\n        return atoi(text);"))),
    Edit("pool.go", "Workers are started twice.", "\tfor i := 0; i < n*2; i++ {\n\t\tgo work(jobs)\n\t}", "\tfor i := 0; i < n; i++ {\n\t\tgo work(jobs)\n\t}",
         (("operator", "\tfor i := 0; i <= n; i++ {\n\t\tgo work(jobs)\n\t}"), ("missing_word", "\tfor i := 0; i < n; i++ {\n\t\twork(jobs)\n\t}"),
          ("other_name", "\tfor i := 0; i < n; i++ {\n\t\tgo work(done)\n\t}"))),
    Edit("src/Account.java", "Withdrawals may exceed the balance.", "        balance -= amount;",
         "        if (amount > balance) {\n            throw new IllegalArgumentException(\"balance\");\n        }\n        balance -= amount;",
         (("operator", "        if (amount < balance) {\n            throw new IllegalArgumentException(\"balance\");\n        }\n        balance -= amount;"),
          ("operator", "        if (amount >= balance) {\n            throw new IllegalArgumentException(\"balance\");\n        }\n        balance -= amount;"),
          ("order", "        balance -= amount;\n        if (amount > balance) {\n            throw new IllegalArgumentException(\"balance\");\n        }"))),
    Edit("src/api.js", "Errors of the server are ignored.", "  const answer = await fetch(url);\n  return answer.json();",
         "  const answer = await fetch(url);\n  if (!answer.ok) {\n    throw new Error(`status ${answer.status}`);\n  }\n  return answer.json();",
         (("operator", "  const answer = await fetch(url);\n  if (answer.ok) {\n    throw new Error(`status ${answer.status}`);\n  }\n  return answer.json();"),
          ("missing_word", "  const answer = fetch(url);\n  if (!answer.ok) {\n    throw new Error(`status ${answer.status}`);\n  }\n  return answer.json();"),
          ("constant", "  const answer = await fetch(url);\n  if (!answer.ok) {\n    throw new Error(`state ${answer.status}`);\n  }\n  return answer.json();"))),
    Edit("src/date.ts", "Months are one too low.", "  return `${date.getFullYear()}-${date.getMonth()}`;", "  return `${date.getFullYear()}-${date.getMonth() + 1}`;",
         (("operator", "  return `${date.getFullYear()}-${date.getMonth() - 1}`;"), ("constant", "  return `${date.getFullYear()} - ${date.getMonth() + 1}`;"),
          ("constant", "  return `${date.getFullYear()}-${date.getMonth()  + 2}`;"))),
    Edit("include/limits.h", "Names of 64 bytes are cut.", "#define NAME_BYTES 64", "#define NAME_BYTES 65",
         (("constant", "#define NAME_BYTES 66"), ("other_name", "#define NAME_BYTE 65"), ("order", "#define 65 NAME_BYTES"))),
    Edit("src/sort.js", "Numbers are sorted as texts.", "  return [...values].sort();", "  return [...values].sort((a, b) => a - b);",
         (("order", "  return [...values].sort((a, b) => b - a);"), ("operator", "  return [...values].sort((a, b) => a < b);"),
          ("missing_word", "  return values.sort((a, b) => a - b);"))),
)  # fmt: skip
_TOP = {".js": "// Part of the shop.\n", ".ts": "// Part of the site.\n", ".c": "/* Small data structures. */\n", ".h": "/* Limits. */\n",
        ".go": "package pool\n", ".java": "// Bank.\n"}  # fmt: skip


def tree() -> Tree:
    """One repository of all these files; each has the old text between lines of its own, and a namesake elsewhere."""
    files = {}
    for one in EDITS:
        top = _TOP[one.path[one.path.rindex(".") :]]
        files[one.path] = f"{top}\n// {one.path}\n{one.old}\n// end\n"
        files[f"old/{one.path}"] = f"{top}\n// kept\n{one.old}\n// end\n"
    return files


def states() -> list[State]:
    """Two states an edit: with the repository and without it."""
    found = []
    for number, one in enumerate(EDITS):
        for workspace in ("workspaces/braces.tar.gz", ""):
            dialect = (OPENHANDS, CLAUDE)[(number + bool(workspace)) % 2]
            look = dialect.view(one.path, 1, 20)
            seen = history(f"Issue: {one.issue}\n\nThe repository is in {dialect.root}.", (look, tree()[one.path]))
            expert = dialect.replace(one.path, one.old, one.new)
            found.append(State("edit", dialect, tree(), workspace, seen, expert, one.issue, None, one.path, one.old))
    return found


def pairs(all_states: list[State]) -> list[Pair]:
    """A pair of either label a state, kinds by turns."""
    found = []
    edits = {one.path: one for one in EDITS}
    for number, state in enumerate(all_states):
        one = edits[state.inside]
        for label, options in (("valid", list(_valid(state, one))), ("wrong", list(_wrong(state, one)))):
            kind, call = options[(number + number // len(options)) % len(options)]
            found.append(Pair(state, call, "rewritten", f"{kind}_of_braces", label, "by_construction", label))
    return found


def _valid(state: State, one: Edit) -> Iterator[tuple[str, Call]]:
    def new(text: str) -> Call:
        return state.dialect.replace(one.path, one.old, text)

    lines = one.new.split("\n")
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    yield "comment", new(f"{indent}/* see the issue */\n{one.new}")
    yield "blank_lines", new("\n".join([*lines[:-1], f"{lines[-1]}  ", ""]))
    if len(lines) > 1 and "`" not in one.new:
        yield "indentation", new("\n".join("  " + line for line in lines))
    if not one.path.endswith(".h"):
        yield "comment", new("\n".join([*lines[:-1], f"{lines[-1]} // mended"]))
        if "`" not in one.new and '"' not in one.new:
            yield "spaces", new(re.sub(r" (<|=|!==|%|-=|\+=) ", r"\1", one.new))
    yield "path_spelling", Call(state.expert.name, {
        key: value.replace(state.dialect.root, f"{state.dialect.root}/.") if "path" in key else value
        for key, value in state.expert.arguments.items()
    })  # fmt: skip
    if state.workspace:
        yield "more_context", state.dialect.replace(one.path, f"// {one.path}\n{one.old}", f"// {one.path}\n{one.new}")
        yield "more_context", state.dialect.replace(one.path, f"{one.old}\n// end", f"{one.new}\n// end")


def _wrong(state: State, one: Edit) -> Iterator[tuple[str, Call]]:
    for kind, text in one.wrong:
        yield kind, state.dialect.replace(one.path, one.old, text)
    yield "other_file", state.dialect.replace(f"old/{one.path}", one.old, one.new)
    yield (
        "old_text_not_there",
        state.dialect.replace(one.path, one.old.replace(" ", "  ", 1).replace("\t", "  ", 1), one.new),
    )
