"""Shell commands in a normal form: two texts with one form are the same command, spelt differently.

Read by a real parser (tree-sitter-bash). The form leaves out white space and comments, spells quotes in one way, takes
`;` and a new line for the same, `$(x)` and backticks, `$X` and `${X}`, `cd x && y` and `cd x; y`, and the word that
ends a here-document, and parentheses around a known tool alone; where a command's options are known
(`shell_options.py`) it unbundles, names and sorts them; where a command has one file, it says how that is read in one
way (`shell_inputs.py`).
What a quoted text or a here-document holds stays as it is, to the byte. Text that is no shell, or has characters beyond
Latin-1, has no normal form.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from pivotrl_core.verifiers.shell_inputs import joined, with_input_last
from pivotrl_core.verifiers.shell_options import is_known, sorted_options

MAX_CHARACTERS = 20_000
_LATIN = re.compile("[\\x00-\\xff]*")
"""Beyond these characters the parser (tree-sitter-bash 0.25.1) reads out of bounds: such a text ended the process."""
_QUOTED_BY_BACKSLASH = '"\\$`\n'
_SEPARATORS = (";", "\n", ";;")
_STATEMENTS = frozenset((
    "command", "list", "pipeline", "redirected_statement", "if_statement", "while_statement", "for_statement",
    "c_style_for_statement", "case_statement", "compound_statement", "subshell", "negated_command", "test_command",
    "declaration_command", "unset_command", "variable_assignment", "function_definition",
))  # fmt: skip
_OF_ONE = ("pipeline", "redirected_statement", "negated_command", "variable_assignments")
"""Statements whose parts are no statements of their own: `a > f` is not `a; > f`."""
_PLAIN = ("word", "raw_string", "string", "concatenation", "number", "simple_expansion", "expansion",
          "command_substitution", "ansi_c_string", "command_name", "special_character")  # fmt: skip

_QUOTED = ("string", "raw_string", "ansi_c_string", "translated_string")
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")


class _OtherReadingError(ValueError):
    """A shell reads this otherwise than the parser: the end of a here-document, backslashes in backticks, `a;; b`."""


def normal_form(text: str) -> tuple[str, ...] | None:
    """Tokens of the normal form, none of them for an empty text; None where the text cannot be parsed."""
    if len(text) > MAX_CHARACTERS or "\0" in text or not _LATIN.fullmatch(text):
        return None
    try:
        root = Parser(_language()).parse(text.encode("utf-8")).root_node
        return None if root.has_error else tuple(_statements_of(root.children))
    except (UnicodeEncodeError, RecursionError, _OtherReadingError):
        return None


@functools.cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def _text(node: Node) -> str:
    assert node.text is not None
    return node.text.decode("utf-8")


def _statements_of(nodes: Sequence[Node]) -> list[str]:
    """Statements one after the other, each closed by `;` or, in the background, by `&`."""
    tokens: list[str] = []
    for node in nodes:
        if _is_separator(node) or node.type == "comment":
            continue
        if node.type == "&":
            tokens[-1:] = ["&"]
        else:
            tokens += [*_tokens(node), ";"]
    return tokens


def _is_separator(node: Node) -> bool:
    if node.type == ";;" and (node.parent is None or node.parent.type != "case_item"):
        raise _OtherReadingError
    return node.type in _SEPARATORS


def _tokens(node: Node) -> list[str]:
    rule = _RULES.get(node.type)
    if rule is not None:
        return rule(node)
    if node.type in _PLAIN:
        return [_word(node)]
    if not node.children:
        return [";" if _text(node) in _SEPARATORS else _text(node)]
    return _closed(node)


def _group(node: Node) -> list[str]:
    """Braces, parentheses or `do ... done` around statements."""
    return [node.children[0].type, *_statements_of(node.children[1:-1]), node.children[-1].type]


def _assignment(node: Node) -> list[str]:
    """One token: `x=1` is an assignment, `x = 1` a command."""
    return ["".join(_word(part) for part in node.children)]


def _redirect(node: Node) -> list[str]:
    """Descriptor and operator are one token: `a 2>f` redirects errors, `a 2 >f` has an argument."""
    operator = "".join(_text(child) for child in node.children if child.type not in _PLAIN)
    return [operator, *(_word(child) for child in node.children if child.type in _PLAIN)]


def _heredoc_start(node: Node) -> list[str]:
    """Whether what follows is expanded; the word itself says nothing."""
    return ["<quoted>" if any(mark in _text(node) for mark in "'\"\\") else "<plain>"]


def _heredoc_end(node: Node) -> list[str]:
    """Nothing, where the word stands on a line alone; for the shell, the text goes on behind anything else."""
    root = node
    while root.parent is not None:
        root = root.parent
    assert root.text is not None
    behind = root.text[node.end_byte - root.start_byte :]
    if behind and not behind.startswith(b"\n"):
        raise _OtherReadingError
    return []


def _closed(node: Node) -> list[str]:
    """The parts of a node, each statement among them closed by `;` however it was."""
    tokens: list[str] = []
    for child in node.children:
        if _is_separator(child) and ((tokens and tokens[-1] == ";") or node.type == "for_statement"):
            continue
        tokens += _tokens(child)
        if child.type in _STATEMENTS and node.type not in _OF_ONE and tokens[-1] not in (";", "&"):
            tokens.append(";")
    return tokens


def _list(node: Node) -> list[str]:
    """`a && b` or `a || b`; where `a` only changes the folder, `cd x && y` is `cd x; y`, but for the background."""
    first, operator, second = (child for child in node.children if child.type != "comment")
    left = _tokens(first)
    changes_folder = left[0] == "cd" and first.type == "command" and len(left) == 2
    joins = changes_folder and operator.type == "&&" and not _in_background(node)
    return [*left, ";" if joins else operator.type, *_tokens(second)]


def _in_background(node: Node) -> bool:
    """Whether `&` follows the whole list that a list is part of: then its `cd` is the background's too."""
    while node.parent is not None and node.parent.type == "list":
        node = node.parent
    return node.next_sibling is not None and node.next_sibling.type == "&"


def _binary(node: Node) -> list[str]:
    """A test of two sides; of `=~` the quoted parts of the right one are text and the others a pattern."""
    at = next((index for index, child in enumerate(node.children) if child.type == "=~"), len(node.children))
    left, right = node.children[: at + 1], node.children[at + 1 :]
    return [*(token for child in left for token in _tokens(child)), *(_text(child) for child in right)]


def _command(node: Node) -> list[str]:
    before: list[str] = []
    words: list[str] = []
    after: list[str] = []
    for child in node.children:
        if child.type == "variable_assignment":
            before += ["".join(_word(part) for part in child.children)]
        elif child.type in _PLAIN:
            words.append(_word(child))
        elif child.type != "comment":
            after += _tokens(child)
    return [*before, *(with_input_last(sorted_options(words)) if words else []), *after]


def _pipeline(node: Node) -> list[str]:
    stages = [child for child in node.children if child.type != "comment"]
    if any(child.type not in ("command", "|") for child in stages):
        return _closed(node)
    tokens = joined([_tokens(child) for child in stages if child.type == "command"])
    return [token for stage in tokens for token in ("|", *stage)][1:]


def _subshell(node: Node) -> list[str]:
    """A subshell around nothing that could change a shell is no more than what is in it."""
    inside = _statements_of(node.children[1:-1])
    parts = [child for child in node.children[1:-1] if child.type not in (*_SEPARATORS, "comment")]
    alone = len(parts) == 1 and node.parent is not None and node.parent.type in ("program", "list")
    commands = parts[0].children if alone and parts[0].type == "pipeline" else parts
    plain = all(one.type == "|" or (one.type == "command" and is_known("".join(_tokens(one)[:1]))) for one in commands)
    return inside[:-1] if alone and plain else _group(node)


def _word(node: Node, quoted: bool = False) -> str:
    """One word, spelt in one way: literal parts quoted where they must be, expansions as they are.

    As written where quotes say what else is expanded.
    """
    if node.type == "concatenation" and _is_mixed(node):
        return _text(node)
    return "".join(_spell(part, literal) for part, literal in _merge(_parts(node, quoted)))


def _is_mixed(node: Node) -> bool:
    """Whether quotes stand beside `~`, `{` or `[`, or empty ones beside an expansion: `{a","b}` is not `{a,b}`."""
    bare = [_text(child) for child in node.children if child.type not in (*_QUOTED, *_EXPANSIONS)]
    quoted = [_text(child) for child in node.children if child.type in _QUOTED]
    if (quoted or any("\\" in text for text in bare)) and any(mark in text for text in bare for mark in "~{["):
        return True
    empty = any(text.strip("$") in ("''", '""') for text in quoted)
    return empty and any(child.type in _EXPANSIONS for child in node.children)


def _spell(part: str, literal: bool) -> str:
    return shlex.quote(part) if literal else part


def _merge(parts: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    merged: list[tuple[str, bool]] = []
    for part, literal in parts:
        if literal and merged and merged[-1][1]:
            merged[-1] = (merged[-1][0] + part, True)
        elif part or len(parts) == 1:
            merged.append((part, literal))
    return merged


def _parts(node: Node, quoted: bool) -> list[tuple[str, bool]]:
    """(text, is it literal) of a word's parts; what is not literal is expanded by the shell."""
    text = _text(node)
    if node.type in ("word", "number", "special_character"):
        return _unquoted(text)
    if node.type == "raw_string":
        return [(text[1:-1], True)]
    if node.type == "string":
        return _double_quoted(node)
    if node.type in ("concatenation", "command_name"):
        return [part for child in node.children for part in _parts(child, quoted)] or _unquoted(text)
    if node.type == "simple_expansion" and text[1:2].isdecimal():  # `$10` is `${1}0`
        return [(_expansion(f"${{{text[1]}}}", quoted), False), (text[2:], True)]
    if node.type == "simple_expansion":
        return [(_expansion(f"${{{text[1:]}}}", quoted), False)]
    if node.type == "command_substitution" and text.startswith(("$(", "`")):
        if text.startswith("`") and "\\" in text:
            raise _OtherReadingError
        inner = [token for child in node.children[1:-1] for token in (*_tokens(child), ";")]
        return [(_expansion(f"$({' '.join(inner)})", quoted), False)]
    return [(_expansion(text, quoted), False)]


def _expansion(text: str, quoted: bool) -> str:
    return f'"{text}"' if quoted else text


def _unquoted(text: str) -> list[tuple[str, bool]]:
    """A bare word: backslashes taken away; a pattern, a brace or a tilde is what the shell expands."""
    literal: list[str] = []
    expands = text.startswith("~") or ":~" in text or "=~" in text
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            expands = expands or escaped in "*?[{~"
            literal.append("" if escaped == "\n" else escaped)
        else:
            expands = expands or character in "*?[{"
            literal.append(character)
    return [(text, False)] if expands else [("".join(literal), True)]


def _double_quoted(node: Node) -> list[tuple[str, bool]]:
    """The parts of "...": expansions inside stay quoted; between them is literal text, white space too."""
    source = node.text
    assert source is not None
    parts: list[tuple[str, bool]] = []
    at = node.start_byte + 1
    for child in node.children[1:-1]:
        if child.type in _EXPANSIONS:
            parts.append((_unescape(source[at - node.start_byte : child.start_byte - node.start_byte]), True))
            parts += _parts(child, quoted=True)
            at = child.end_byte
    parts.append((_unescape(source[at - node.start_byte : -1]), True))
    return parts


def _unescape(source: bytes) -> str:
    text = source.decode("utf-8")
    out: list[str] = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped not in _QUOTED_BY_BACKSLASH:
            out.append("\\" + escaped)
        elif escaped != "\n":
            out.append(escaped)
    return "".join(out)


_RULES: Mapping[str, Callable[[Node], list[str]]] = {
    "comment": lambda _: [],
    "command": _command,
    "list": _list,
    "binary_expression": _binary,
    "variable_assignment": _assignment,
    "file_redirect": _redirect,
    "heredoc_start": _heredoc_start,
    "heredoc_body": lambda node: [shlex.quote(_text(node))],
    "heredoc_end": _heredoc_end,
    "compound_statement": _group,
    "subshell": _subshell,
    "pipeline": _pipeline,
    "do_group": _group,
}
