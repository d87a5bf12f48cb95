"""Source of languages with braces in a form without comments and without white space between tokens, line by line.

Lines stay lines, for in some of these languages their ends say something. What cannot be told apart without a parser of
the language stays as it is written, but for white space around it: lines with a `/` that divides or begins a regular
expression, directives of a preprocessor, and (white space at starts too) whole texts with literals of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKENS = frozenset({".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".go", ".java", ".js", ".kt", ".rs", ".scala", ".swift",
                    ".ts"})  # fmt: skip
"""Endings of languages in which white space between two tokens of a line says nothing."""
_SPANNING = re.compile(r'"""|@"|\b(?:u8|[uUL])?R"|\br#*"')
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`)
      |(?P<comment>//[^\n]*|/\*.*?\*/)
      |(?P<word>[\w$]+(?:\.\d+)?)
      |(?P<skip>[ \t\r\f]+)
      |(?P<line>\n)
      |(?P<mark><<=|>>=|>>>=?|\*\*=?|===|!==|\.\.\.|&&=|\|\|=|\?\?=?|\?\.|[-+*%&|^=!<>:]=|=>|->|::|\+\+|--|&&|\|\||<<|>>|.)""",
    re.VERBOSE | re.DOTALL,
)
_UNCLEAR = frozenset("/\\`\"'")
_DIRECTIVE = re.compile(r"go:|\+build|@ts-|@flow|eslint|NOLINT|prettier|istanbul|clang-format")
"""Comments that tools obey."""


def brace_lines(text: str) -> Iterator[str]:
    """The lines of a text that hold something, each as its tokens."""
    lines = text.split("\n")
    if _SPANNING.search(text) or any(line.count("`") % 2 for line in lines):
        yield from (line.rstrip() for line in lines if line.strip())
        return
    tokens: list[str] = []
    line: list[str] = []
    is_plain = True
    for match in _TOKEN.finditer(text + "\n"):
        kind, token = match.lastgroup, match[0]
        if kind == "line":
            if tokens:
                yield " ".join(tokens) if is_plain else "".join(line).strip()
            tokens, line, is_plain = [], [], True
            continue
        line.append(token)
        if kind == "comment":
            tokens += [token] if _DIRECTIVE.search(token) else []
        elif kind != "skip":
            tokens.append(token)
            is_plain = is_plain and not (kind == "mark" and (token in _UNCLEAR or tokens == ["#"]))
