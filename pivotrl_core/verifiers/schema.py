"""The little of JSON Schema that comparing two values needs: local references, branches, properties, defaults.

A schema that makes no sense says nothing: nothing here raises, and no pattern is ever matched against a policy's text
(patterns of foreign files can be made to run for ever). Three annotations of our own say which spellings a tool does
not tell apart: `x-ignore-case: true`, `x-ignore-prefix: "#"` (a leading sign that may be left out), and
`x-unordered: true` (a list whose order does not matter, though an item may be there twice).
"""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.types import Json

IGNORE_CASE = "x-ignore-case"
IGNORE_PREFIX = "x-ignore-prefix"
UNORDERED = "x-unordered"
MAX_STEPS = 16

Schema = Mapping[str, Json]


def resolve(schema: Json, root: Schema, value: Json) -> Schema:
    """The schema that applies to `value`: references followed, and of several branches the first that fits it."""
    for _ in range(MAX_STEPS):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(schema.get("$ref"), str):
            schema = _look_up(root, schema["$ref"])
        elif _branches(schema):
            rest = {key: part for key, part in schema.items() if key not in ("anyOf", "oneOf", "allOf")}
            for branch in _chosen(schema, root, value):
                rest = _merge(rest, branch)
            schema = rest
        else:
            return schema
    return {}


def _branches(schema: Schema) -> bool:
    return any(isinstance(schema.get(key), list) for key in ("anyOf", "oneOf", "allOf"))


def _chosen(schema: Schema, root: Schema, value: Json) -> list[Schema]:
    """Every `allOf` branch, and the first fitting one of `anyOf` and of `oneOf`, references followed once."""
    chosen: list[Schema] = []
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        branches = [_follow(part, root) for part in parts] if isinstance(parts, list) else []
        if key != "allOf":
            typed = [branch for branch in branches if fits_type(value, branch.get("type"))]
            branches = ([branch for branch in typed if _fits_marks(value, branch)] or typed)[:1]
        chosen.extend(branches)
    return chosen


def _fits_marks(value: Json, branch: Schema) -> bool:
    """Whether a value has what tells one branch from another: constants, choices, and names that must be there."""
    if "const" in branch and value != branch["const"]:
        return False
    if isinstance(branch.get("enum"), list) and value not in branch["enum"]:
        return False
    if not isinstance(value, Mapping):
        return True
    properties = branch.get("properties")
    parts = properties if isinstance(properties, Mapping) else {}
    return not absent_names(branch, value) and all(
        _fits_marks(value[name], part) for name, part in parts.items() if name in value and isinstance(part, Mapping)
    )


def _follow(schema: Json, root: Schema) -> Schema:
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        schema = _look_up(root, schema["$ref"])
    return schema if isinstance(schema, Mapping) else {}


def _merge(base: dict[str, Json], branch: Schema) -> dict[str, Json]:
    merged = {**base, **branch}
    both = (base.get("properties"), branch.get("properties"))
    if all(isinstance(part, Mapping) for part in both):
        merged["properties"] = {**base["properties"], **branch["properties"]}
    return merged


def _look_up(root: Schema, reference: str) -> Json:
    """The part of the root schema that a local reference (`#/$defs/x`) points to, or None."""
    if not reference.startswith("#"):
        return None
    node: Json = root
    for part in reference[1:].split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node


def fits_type(value: Json, kind: Json) -> bool:
    """Whether a value is of a schema's `type` (a name or a list of names). No type: any value fits."""
    if isinstance(kind, list):
        return any(fits_type(value, one) for one in kind)
    if kind == "integer":
        whole = isinstance(value, float) and value.is_integer()
        return (isinstance(value, int) and not isinstance(value, bool)) or whole
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    classes: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    return not isinstance(kind, str) or kind not in classes or isinstance(value, classes[kind])


def absent_names(schema: Schema, value: Mapping[str, Json]) -> tuple[str, ...]:
    """Names that the schema requires and an object has not, cut at 64 characters."""
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return tuple(name[:64] for name in names if isinstance(name, str) and name not in value)


def with_defaults(value: Mapping[str, Json], schema: Schema, root: Schema) -> dict[str, Json]:
    """An object with each optional property that it leaves out at its default.

    An optional null without a default means 'not given', where the schema allows null: it is left out.
    """
    properties, required = schema.get("properties"), schema.get("required")
    filled = dict(value)
    if not isinstance(properties, Mapping):
        return filled
    for name, part in properties.items():
        if not isinstance(part, Mapping) or (isinstance(required, list) and name in required):
            continue
        said = _follow(part, root) if "default" not in part else part
        if "default" in said:
            filled.setdefault(name, said["default"])
        elif name in filled and filled[name] is None and _allows_null(part, root):
            del filled[name]
    return filled


def _allows_null(part: Schema, root: Schema) -> bool:
    kind = resolve(part, root, None).get("type")
    # OpenAPI 3.0 says `nullable` where JSON Schema names the type.
    return part.get("nullable") is True or (kind is not None and fits_type(None, kind))
