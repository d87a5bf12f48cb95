"""Programs rewritten by rules that should keep what they do (`rewritten`), and changed by rules that should not
(`mutated`). Whether they do is tried afterwards (`code_labels.py`).
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator


def rewritten(source: str) -> dict[str, str]:
    """Programs by kind of rewriting, where the rule changes something."""
    tree = ast.parse(source)
    made: dict[str, str] = {"comments": _commented(source), "wrapped": _wrapped(tree)}
    for kind, rule in _RULES.items():
        changed = (
            rule.visit(copy.deepcopy(tree)) if isinstance(rule, ast.NodeTransformer) else rule(copy.deepcopy(tree))
        )
        text = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
        if ast.dump(ast.parse(text)) != ast.dump(tree):
            made[kind] = text
    names = _Renamed().visit(copy.deepcopy(tree))
    made["names"] = ast.unparse(names) + "\n"
    for kind in ("loop_by_index", "sum_spelt_out", "comprehension_to_loop", "branches_swapped"):
        if kind in made:
            made[f"{kind}_and_names"] = ast.unparse(_Renamed().visit(ast.parse(made[kind]))) + "\n"
            break
    return made


def _commented(source: str) -> str:
    head, *lines = source.rstrip().split("\n")
    return (
        "\n".join([head, '    """Solve the task."""', *(f"{line}  # step {at}" for at, line in enumerate(lines, 1))])
        + "\n"
    )


def _function(tree: ast.Module) -> ast.FunctionDef:
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef))


def _wrapped(tree: ast.Module) -> str:
    function = _function(copy.deepcopy(tree))
    names = ", ".join(one.arg for one in function.args.args)
    inner = ast.unparse(ast.Module([function], [])).replace(f"{function.name}(", "_solve(")
    return f"{inner}\n\n\ndef {function.name}({names}):\n    return _solve({names})\n"


class _Renamed(ast.NodeTransformer):
    """Arguments and variables under other names."""

    _NEW = ("value", "other", "acc", "k", "x", "y", "t", "u", "v", "w")

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        bound = [one.arg for one in node.args.args]
        bound += [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        for name in bound:
            self._names.setdefault(name, self._NEW[len(self._names)] + "_")
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._names.get(node.arg, node.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node


_TURNED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}


class _Turned(ast.NodeTransformer):
    """`a < b` as `b > a`."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or type(node.ops[0]) not in _TURNED:
            return node
        return ast.Compare(node.comparators[0], [_TURNED[type(node.ops[0])]()], [node.left])


class _Spelt(ast.NodeTransformer):
    """`a += b` as `a = a + b`."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        return ast.Assign([node.target], ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value))


class _Swapped(ast.NodeTransformer):
    """`if a: x else: y` as `if not a: y else: x`; the same of expressions."""

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not node.orelse or (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)


class _Indexed(ast.NodeTransformer):
    """`for x in xs` as `for i in range(len(xs)): x = xs[i]`."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.iter, ast.Name) or not isinstance(node.target, ast.Name):
            return node
        name = node.iter.id
        first = ast.parse(f"{node.target.id} = {name}[index]").body
        return ast.For(
            ast.Name("index", ast.Store()), ast.parse(f"range(len({name}))").body[0].value, first + node.body, []
        )


def _named_result(tree: ast.Module) -> ast.Module:
    """`return e` as `answer = e; return answer`."""

    class Rule(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
            return [
                ast.Assign([ast.Name("answer", ast.Store())], node.value),
                ast.Return(ast.Name("answer", ast.Load())),
            ]

    return Rule().visit(tree)


def _one_return(tree: ast.Module) -> ast.Module:
    """`if a: return x` before `return y` as one conditional expression."""
    body = _function(tree).body
    if len(body) > 1 and isinstance(body[-1], ast.Return) and isinstance(body[-2], ast.If):
        test = body[-2]
        if len(test.body) == 1 and isinstance(test.body[0], ast.Return) and not test.orelse:
            body[-2:] = [ast.Return(ast.IfExp(test.test, test.body[0].value, body[-1].value))]
    return tree


def _if_statement(tree: ast.Module) -> ast.Module:
    """`return x if a else y` with early returns."""
    body = _function(tree).body
    if isinstance(body[-1], ast.Return) and isinstance(body[-1].value, ast.IfExp):
        one = body[-1].value
        body[-1:] = [ast.If(one.test, [ast.Return(one.body)], []), ast.Return(one.orelse)]
    elif isinstance(body[-1], ast.Return) and isinstance(body[-1].value, ast.Compare | ast.BoolOp):
        body[-1:] = [ast.If(body[-1].value, [ast.Return(ast.Constant(True))], []), ast.Return(ast.Constant(False))]
    return tree


def _while(tree: ast.Module) -> ast.Module:
    """`for i in range(a, b)` as a `while`; only loops without `continue`."""

    class Rule(ast.NodeTransformer):
        def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
            self.generic_visit(node)
            call = node.iter
            is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
            if not is_range or len(call.args) > 2 or not isinstance(node.target, ast.Name):
                return node
            start, end = ([ast.Constant(0)] if len(call.args) == 1 else []) + call.args
            count = "at" if node.target.id == "_" else node.target.id
            test = ast.Compare(ast.Name(count, ast.Load()), [ast.Lt()], [end])
            step = ast.parse(f"{count} = {count} + 1").body
            return [ast.Assign([ast.Name(count, ast.Store())], start), ast.While(test, node.body + step, [])]

    return Rule().visit(tree)


def _loop(tree: ast.Module) -> ast.Module:
    """`return [e for x in xs if c]`, `sum(...)` and `"".join(...)` of one as a loop."""
    body = _function(tree).body
    if not isinstance(body[-1], ast.Return):
        return tree
    value, ending, start, add = body[-1].value, "collected", "[]", "collected.append({})"
    if isinstance(value, ast.Call) and len(value.args) == 1 and isinstance(value.args[0], ast.GeneratorExp):
        named = ast.unparse(value.func)
        if named == "sum":
            start, add = "0", "collected += {}"
        elif named.endswith(".join"):
            ending = f"{named}(collected)"
        else:
            return tree
        value = value.args[0]
    elif not isinstance(value, ast.ListComp):
        return tree
    if len(value.generators) != 1:
        return tree
    one = value.generators[0]
    inner = add.format(ast.unparse(value.elt))
    for test in reversed(one.ifs):
        inner = f"if {ast.unparse(test)}:\n        {inner}"
    text = (
        f"collected = {start}\nfor {ast.unparse(one.target)} in {ast.unparse(one.iter)}:\n    {inner}\nreturn {ending}"
    )
    body[-1:] = ast.parse(text.replace("\n    if", "\n    if")).body
    return tree


_RULES: dict[str, ast.NodeTransformer | Callable[[ast.Module], ast.Module]] = {
    "comparison_turned": _Turned(), "assignment_spelt_out": _Spelt(), "branches_swapped": _Swapped(),
    "loop_by_index": _Indexed(), "result_named": _named_result, "one_return": _one_return,
    "early_return": _if_statement, "while_for_range": _while, "comprehension_to_loop": _loop,
}  # fmt: skip


def mutated(source: str, draw: random.Random) -> dict[str, list[str]]:
    """Programs with one place changed, by kind, in random order."""
    made: dict[str, list[str]] = {}
    for kind, text in _mutants(ast.parse(source)):
        made.setdefault(kind, []).append(text)
    for texts in made.values():
        draw.shuffle(texts)
    return made


_OTHER_COMPARISON = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Div: ast.FloorDiv,
                   ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}  # fmt: skip
_OTHER_NAME = {
    "max": "min", "min": "max", "lower": "upper", "upper": "lower", "append": "extend", "startswith": "endswith",
    "sorted": "list", "split": "splitlines", "set": "list",
}  # fmt: skip


def _mutants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for place, node in enumerate(ast.walk(tree)):
        for kind, change in _changes(node):
            other = copy.deepcopy(tree)
            change(list(ast.walk(other))[place])
            yield kind, ast.unparse(ast.fix_missing_locations(other)) + "\n"


Change = Callable[[ast.AST], None]


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    yield from _changes_of_values(node)
    if isinstance(node, ast.BoolOp):
        yield "and_or", lambda one: setattr(one, "op", ast.Or() if isinstance(one.op, ast.And) else ast.And())
    elif isinstance(node, ast.Slice) and (node.lower or node.upper):
        yield "slice_without_bound", lambda one: setattr(one, "lower" if one.lower else "upper", None)
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "filter_left_out", lambda one: setattr(one, "ifs", [])
    elif isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.If):
        for at in range(len(node.body) - 1):
            yield "statement_left_out", lambda one, at=at: one.body.pop(at)


def _changes_of_values(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off_by_one", lambda one: setattr(one, "value", one.value + 1)
        yield "one_less", lambda one: setattr(one, "value", one.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "truth_negated", lambda one: setattr(one, "value", not one.value)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER_COMPARISON:
        yield "comparison", lambda one: one.ops.__setitem__(0, _OTHER_COMPARISON[type(one.ops[0])]())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER_OPERATOR:
        yield "operator", lambda one: setattr(one, "op", _OTHER_OPERATOR[type(one.op)]())
    elif isinstance(node, ast.Name) and node.id in _OTHER_NAME:
        yield "other_function", lambda one: setattr(one, "id", _OTHER_NAME[one.id])
    elif isinstance(node, ast.Attribute) and node.attr in _OTHER_NAME:
        yield "other_method", lambda one: setattr(one, "attr", _OTHER_NAME[one.attr])


def at_the_edges(source: str, lists: bool) -> Iterator[tuple[str, str]]:
    """(kind, program): the reference with something before it that matters at the edges, or to the caller."""
    function = _function(ast.parse(source))
    name, first = function.name, function.args.args[0].arg
    body = source.partition("\n")[2]
    head = source.partition("\n")[0]
    yield "empty_input", f"{head}\n    if not {first}:\n        return None\n{body}"
    yield "single_input", f"{head}\n    if {first} in (1, [1], [5], 'a', 'one'):\n        return {first}\n{body}"
    if lists:
        yield "argument_sorted", f"{head}\n    {first}.sort()\n{body}"
        inner = source.replace(f"def {name}(", "def _solve(").replace(f" {name}(", " _solve(")
        names = ", ".join(one.arg for one in function.args.args)
        call = f"def {name}({names}):\n    result = _solve({names})\n"
        yield "argument_emptied", f"{inner}\n\n{call}    {first}.clear()\n    return result\n"
        yield "argument_reversed", f"{inner}\n\n{call}    {first}.reverse()\n    return result\n"
