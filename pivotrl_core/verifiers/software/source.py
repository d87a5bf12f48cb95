"""Source text in a form without white space and comments: two texts of one form do the same.

Python: by its tokens, each logical line with its indentation, quotes of plain strings spelt in one way; or by its
syntax tree, where texts parse (so redundant parentheses, trailing commas and line breaks make no difference). Strings
keep every character, docstrings too, and so does a first line `#!`. Fragments need not be whole programs. Languages
with braces: by the tokens of their lines (`braces.py`). Others: by lines, without blank ones and without white space
at their ends, and at their starts too where braces say what belongs together.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pivotrl_core.verifiers.software.braces import TOKENS, brace_lines

MAX_CHARACTERS = 200_000
"""Longer Python is compared as lines."""
MAX_PARSED = 50_000
"""Longer Python is compared by its tokens alone."""
_PYTHON = frozenset({".py", ".pyi"})
_BRACES = frozenset({*TOKENS, ".css", ".json", ".jsx", ".php", ".tsx"})
_TOKEN = re.compile(
    r"""(?P<string>\b[A-Za-z]{1,3}(?=["'])|)(?P<body>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |(?P<skip>\#[^\n]*|[ \t\f\r]+|\\\r?\n)
      |(?P<line>\n)
      |(?P<open>[([{])|(?P<close>[)\]}])
      |(?P<word>\w+)
      |\*\*=?|//=?|>>=?|<<=?|->|:=|[-+*/%&|^@=!<>]=|.""",
    re.VERBOSE | re.DOTALL,
)
_WIDTH = re.compile(r"[ \t]*")
ESCAPE_THAT_WARNS = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]")
"""Parsing warns of these, and with warnings as errors fails: no verdict may depend on that."""
_UNQUOTED = re.compile(r"[^\"'\\\n]*")


@dataclass(frozen=True, slots=True)
class Source:
    """A text with its form. `words` is what every text of the same syntax tree has too; empty but for Python."""

    text: str
    form: tuple[str, ...]
    words: tuple[str, ...] = ()


def read_source(text: str, path: str) -> Source:
    """The form of a text that stands in, or is meant for, the file at `path`."""
    suffix = PurePosixPath(path[-255:].replace("\0", "")).suffix.lower()
    if suffix in _PYTHON and len(text) <= MAX_CHARACTERS:
        form, words = _python_tokens(text)
        # The only comment that says what runs the file.
        interpreter = (text.partition("\n")[0].rstrip(),) if text.startswith("#!") else ()
        return Source(text, (*form, *interpreter), (*words, *interpreter))
    if suffix in TOKENS and len(text) <= MAX_CHARACTERS:
        return Source(text, tuple(brace_lines(text)))
    return Source(text, tuple(_lines(text, suffix in _BRACES and "`" not in text)))


def is_source(path: str) -> bool:
    """Whether the file at `path` is in a language of which white space is known to say nothing."""
    return PurePosixPath(path[-255:].replace("\0", "")).suffix.lower() in _PYTHON | _BRACES


def same_source(expected: Source, actual: Source) -> bool:
    """Whether two texts for one file have one form, or one syntax tree at one indentation."""
    if expected.text == actual.text or expected.form == actual.form:
        return True
    if not expected.words or expected.words != actual.words:
        return False
    indents = [source.form[0] if source.form else "" for source in (expected, actual)]
    first, second = parse_python(expected.text), parse_python(actual.text)
    return indents[0] == indents[1] and first is not None and second is not None and _same_node(first, second)


def parse_python(text: str) -> ast.AST | None:
    """The syntax tree of a program or of a fragment at any indentation, or None."""
    if len(text) > MAX_PARSED or ESCAPE_THAT_WARNS.search(text):
        return None
    try:
        return ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _lines(text: str, is_free: bool) -> Iterator[str]:
    for line in text.split("\n"):
        bare = line.strip() if is_free else line.rstrip()
        if bare:
            yield bare


def _python_tokens(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(tokens, words). Each logical line begins with its indentation, spelt `>` and its width."""
    tokens: list[str] = []
    words: list[str] = []
    depth, starts_line = 0, True
    indent = ""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "line":
            starts_line = starts_line or depth == 0
            continue
        if starts_line:
            indent = _indent(text, match.start())
            tokens.append(indent)
            starts_line = False
        token = match[0]
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "word":
            words.append(token)
        elif kind == "body":
            token = _spelt(match["string"], match["body"])
        tokens.append(token)
    return tuple(tokens), tuple(word for word in words if not word[0].isdigit())


def _indent(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    match = _WIDTH.match(text, start)
    return f">{len(match[0].expandtabs(8)) if match else 0}"


def _spelt(prefix: str, body: str) -> str:
    """A string literal, its prefix and quotes spelt in one way where that cannot change it."""
    prefix = prefix.lower()
    if not body.startswith(('"""', "'''")) and _UNQUOTED.fullmatch(body, 1, len(body) - 1):
        return f'{prefix.replace("r", "").replace("u", "")}"{body[1:-1]}"'
    return prefix + body


def _same_node(expected: ast.AST, actual: ast.AST) -> bool:
    """Whether two trees are one, without recursion: whatever parsed can be compared."""
    pairs: list[tuple[object, object]] = [(expected, actual)]
    while pairs:
        first, second = pairs.pop()
        if type(first) is not type(second):
            return False
        if isinstance(first, ast.AST):
            pairs += [(getattr(first, name, None), getattr(second, name, None)) for name in first._fields
                      if name not in ("ctx", "kind", "type_comment")]  # fmt: skip
        elif isinstance(first, list) and isinstance(second, list):
            if len(first) != len(second):
                return False
            pairs += zip(first, second, strict=True)
        elif repr(first) != repr(second):  # 0.0 is not -0.0
            return False
    return True
