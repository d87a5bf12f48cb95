"""Bodies of functions rewritten by rule: the same in other words, or nearly the same and meant to be wrong."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Callable, Iterator

from pivotrl_core.seeding import generator

Rewriting = Callable[[str, str], Iterator[str]]
"""From head and body to other bodies."""


def _function(head: str, body: str) -> ast.FunctionDef:
    (node,) = ast.parse(f"{head}\n{body}\n").body
    assert isinstance(node, ast.FunctionDef)
    return node


def _body(node: ast.FunctionDef) -> str:
    """The statements below the docstring, as `ast` writes them."""
    return textwrap.indent("\n".join(ast.unparse(one) for one in node.body[1:]), "    ")


def commented(head: str, body: str) -> Iterator[str]:
    lines = body.split("\n")
    at = int(generator(0, "pairs", "comment", head).integers(len(lines)))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    yield "\n".join([*lines[:at], f"{indent}# as the docstring says", *lines[at:]])
    yield "\n".join([*lines[:-1], f"{lines[-1]}  # fixed"])


def respaced(head: str, body: str) -> Iterator[str]:
    lines = body.split("\n")
    if len(lines) > 1:
        yield "\n".join([*lines[:-1], "", lines[-1]])
    node = _function(head, body)
    if (text := _body(node)) != body:
        yield text


def parenthesised(head: str, body: str) -> Iterator[str]:
    lines = body.split("\n")
    before, word, value = lines[-1].partition("return ")
    if word and not before.strip() and value.count("(") == value.count(")"):
        yield "\n".join([*lines[:-1], f"{before}return ({value})"])
        yield "\n".join([*lines[:-1], f"{before}return (", f"{before}    {value}", f"{before})"])


def renamed(head: str, body: str) -> Iterator[str]:
    """Each local name that the body binds, in longer words."""
    node = _function(head, body)
    given = {one.arg for one in node.args.args}
    bound = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)} - given
    for suffix in ("_found", "_now") if bound else ():
        other = copy.deepcopy(node)
        for one in ast.walk(other):
            if isinstance(one, ast.Name) and one.id in bound:
                one.id += suffix
        yield _body(other)


def swapped_comparison(head: str, body: str) -> Iterator[str]:
    """`a < b` as `b > a`."""
    turned = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}

    def change(one: ast.AST) -> bool:
        if isinstance(one, ast.Compare) and len(one.ops) == 1 and type(one.ops[0]) in turned:
            one.left, one.comparators, one.ops = one.comparators[0], [one.left], [turned[type(one.ops[0])]()]
            return True
        return False

    yield from _each(head, body, change)


def written_out(head: str, body: str) -> Iterator[str]:
    """`x += y` as `x = x + y`."""
    node = _function(head, body)
    for parent in ast.walk(node):
        for name in ("body", "orelse"):
            statements = getattr(parent, name, None)
            for at, one in enumerate(statements if isinstance(statements, list) else []):
                if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
                    left = ast.Name(one.target.id, ast.Load())
                    statements[at] = ast.Assign([one.target], ast.BinOp(left, one.op, one.value), lineno=1)
    if (text := _body(node)) != _body(_function(head, body)):
        yield text


def through_a_name(head: str, body: str) -> Iterator[str]:
    """The value of the last return gets a name first."""
    lines = body.split("\n")
    before, word, value = lines[-1].partition("return ")
    if word and not before.strip() and not value.isidentifier() and value.count("(") == value.count(")"):
        yield "\n".join([*lines[:-1], f"{before}answer = {value}", f"{before}return answer"])


def other_operator(head: str, body: str) -> Iterator[str]:
    near = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Div: ast.FloorDiv,
            ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip

    def change(one: ast.AST) -> bool:
        if isinstance(one, ast.Compare) and type(one.ops[0]) in near:
            one.ops[0] = near[type(one.ops[0])]()
            return True
        if isinstance(one, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(one.op) in near:
            one.op = near[type(one.op)]()
            return True
        return False

    yield from _each(head, body, change)


def other_constant(head: str, body: str) -> Iterator[str]:
    """A number that is one off, another case, or a text with another end."""

    def change(one: ast.AST) -> bool:
        if isinstance(one, ast.Constant) and type(one.value) is int:
            one.value += 1
            return True
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value:
            one.value = one.value[:-1] + chr(ord(one.value[-1]) + 1)
            return True
        if isinstance(one, ast.Constant) and isinstance(one.value, bool):
            one.value = not one.value
            return True
        return False

    yield from _each(head, body, change)


def other_branch(head: str, body: str) -> Iterator[str]:
    def change(one: ast.AST) -> bool:
        if isinstance(one, ast.If | ast.While):
            one.test = ast.UnaryOp(ast.Not(), one.test)
            return isinstance(one, ast.If)
        if isinstance(one, ast.IfExp):
            one.body, one.orelse = one.orelse, one.body
            return True
        return False

    yield from _each(head, body, change)


def other_name(head: str, body: str) -> Iterator[str]:
    """One name read in place of another that is there too."""
    node = _function(head, body)
    known = sorted({one.arg for one in node.args.args} | {one.id for one in ast.walk(node)
                   if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)})  # fmt: skip

    def change(one: ast.AST) -> bool:
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in known and len(known) > 1:
            one.id = known[(known.index(one.id) + 1) % len(known)]
            return True
        return False

    yield from _each(head, body, change)


def without_a_statement(head: str, body: str) -> Iterator[str]:
    node = _function(head, body)
    for at in range(1, len(node.body) - 1):
        other = copy.deepcopy(node)
        del other.body[at]
        yield _body(other)


def return_too_early(head: str, body: str) -> Iterator[str]:
    """The last return inside of the loop above it."""
    lines = body.split("\n")
    if len(lines) > 2 and lines[-2].startswith("        ") and lines[-1].startswith("    return"):
        yield "\n".join([*lines[:-1], "    " + lines[-1]])


def _each(head: str, body: str, change: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The body with each place at which a change can be made changed by itself; the last places first."""
    count = sum(1 for _ in ast.walk(_function(head, body)))
    for at in reversed(range(count)):
        node = _function(head, body)
        one = list(ast.walk(node))[at]
        if one is not node.body[0] and not _in_docstring(node, one) and change(one):
            try:
                yield _body(ast.fix_missing_locations(node))
            except (ValueError, TypeError):
                continue


def _in_docstring(node: ast.FunctionDef, one: ast.AST) -> bool:
    first = node.body[0]
    return isinstance(first, ast.Expr) and one is first.value


VALID: dict[str, Rewriting] = {
    "comment": commented, "white_space": respaced, "parentheses": parenthesised, "renamed_local": renamed,
    "swapped_comparison": swapped_comparison, "augmented_assignment": written_out, "named_result": through_a_name,
}  # fmt: skip
WRONG: dict[str, Rewriting] = {
    "operator": other_operator, "constant": other_constant, "branch": other_branch, "other_name": other_name,
    "missing_statement": without_a_statement, "return_too_early": return_too_early,
}  # fmt: skip
