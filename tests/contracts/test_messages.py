"""A key that an error message names is one that the configuration has: who follows the message finds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from pivotrl_core.config.tree import Config

ROOT = Path(__file__).resolve().parents[2]
KEY = re.compile(r"(?<![\w./`-])[a-z_]+(?:\.(?:[a-z_]+|[A-Z]+))+(?![\w/])")  # in capitals: a name, of an arm say
SUFFIXES = ("yaml", "yml", "json", "jsonl", "gz", "parquet", "toml", "lock", "py", "md", "safetensors")


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """Models that a value may be, in unions and in the values of mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_of(part)]


def is_key(name: str) -> bool:
    """Whether a dotted name leads through the configuration."""
    models: list[type[BaseModel]] = [Config]
    for step in name.split("."):
        if step.isupper():  # a name of one's own: what it names is reached already
            continue
        fields = [model.model_fields[step] for model in models if step in model.model_fields]
        if not fields:
            return False
        models = [model for field in fields for model in models_of(field.annotation)]
    return True


def text_of(node: ast.AST) -> str:
    """The text of an expression, with X for each value that it only gets when it runs."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) if isinstance(part, ast.Constant) else "X" for part in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return ""


def messages(tree: ast.AST) -> Iterator[str]:
    """What a module's errors say."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
            yield from (text_of(argument) for argument in node.args)


def test_every_key_that_a_message_names_is_one_of_the_configuration() -> None:
    named: set[str] = set()
    unknown: dict[str, str] = {}
    core = ROOT / "pivotrl_core"  # in config/ a validator's message begins where its section stands
    for path in sorted(file for file in core.rglob("*.py") if file.parent.name != "config"):
        for message in messages(ast.parse(path.read_text(encoding="utf-8"))):
            for name in KEY.findall(message):
                if name.rpartition(".")[2] in SUFFIXES:
                    continue
                named.add(name)
                if not is_key(name):
                    unknown[f"{path.relative_to(ROOT)}: {name}"] = message
    assert unknown == {}
    assert {"arms.NAME.train.mismatch_limit", "profile.decides_for", "data.max_state_tokens"} <= named
