"""Arithmetic expressions: the same by signs and numbers, and by value where a schema says that they are such."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

MAX_CHARACTERS = 200
"""Longer texts are no expressions here."""
MAX_EXPONENT = 64

_EXPRESSION = re.compile(r"[\d\s.+\-*/()^%\u2212\u00d7\u00f7]+")
_OPERATION = re.compile(r"[\d)]\s*[+\-*/^%\u2212\u00d7\u00f7]\s*[\d(.\-+]")
_SIGNS = str.maketrans({"\u2212": "-", "\u00d7": "*", "\u00f7": "/"})
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\.\d+|\*\*|\S")
_SAID = re.compile(
    r"\b(?:mathematical|arithmetic(?:al)?|numeric(?:al)?|math)\s+(?:expression|formula|operation)", re.IGNORECASE
)

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}  # fmt: skip


def is_expression(text: str) -> bool:
    """Whether a text is made of numbers, brackets and at least one operation between two numbers."""
    short = len(text) <= MAX_CHARACTERS
    return short and _EXPRESSION.fullmatch(text) is not None and _OPERATION.search(text) is not None


def same_expression(expected: str, actual: str, schema: Mapping[str, object]) -> bool:
    """Whether two expressions are the same but for spaces, or of one value where the schema's description allows it."""
    first, second = expected.translate(_SIGNS), actual.translate(_SIGNS)
    if _TOKEN.findall(first) == _TOKEN.findall(second):
        return True
    description = schema.get("description")
    if not isinstance(description, str) or not _SAID.search(description):
        return False
    one, two = _value(first), _value(second)
    return one is not None and two is not None and math.isclose(one, two, rel_tol=1e-9)


def _value(text: str) -> float | None:
    """The value of an expression, None where it has none."""
    try:
        return _evaluate(ast.parse(text.strip().replace("^", "**"), mode="eval").body)
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return None


def _evaluate(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]  # one of the two, as the line above says
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _evaluate(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        first, second = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Pow) and abs(second) <= MAX_EXPONENT:
            power = first**second
            if isinstance(power, float):  # a root of a negative number is complex
                return power
        if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](first, second)
    raise ValueError("not an arithmetic expression")
