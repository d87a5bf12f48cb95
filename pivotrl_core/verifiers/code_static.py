"""What can be said about Python code without running it: syntax, types where they are stated, resources it asks for.

Types: a constant that is assigned, returned or given as a default under an annotation of built-in types, and is of none
of them (`-> int: return "a"`). What needs inference is left to the tests. Resources: modules and functions that reach
for the network, other processes or the interpreter's insides. The sandbox refuses them too; here they have a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

MAX_CHARACTERS = 100_000
_CANNOT_BE_WRITTEN = (ValueError, RecursionError, SyntaxError, MemoryError)
"""What `ast.unparse` raises for a tree that could be parsed: of numbers over 4,300 digits, of types nested deeply."""
_MODULES = frozenset((
    "socket", "ssl", "urllib", "http", "ftplib", "smtplib", "poplib", "imaplib", "telnetlib", "xmlrpc", "socketserver",
    "asyncore", "requests", "httpx", "aiohttp", "subprocess", "multiprocessing", "pty", "ctypes", "resource", "fcntl",
    "gc", "inspect", "webbrowser", "winreg", "msvcrt",
))  # fmt: skip
_CALLS = frozenset((
    "os.system", "os.popen", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.setsid", "os.remove", "os.unlink",
    "os.rmdir", "os.putenv", "shutil.rmtree", "sys._getframe", "builtins.exec", "builtins.eval",
))  # fmt: skip
_PREFIXES = ("os.exec", "os.spawn", "os.posix_spawn")
_BUILT_IN: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "complex": (int, float, complex), "str": (str,), "bool": (bool,),
    "bytes": (bytes,),
}  # fmt: skip


def parse(code: str) -> ast.Module | str:
    """The syntax tree, or what is wrong with the code."""
    if len(code) > MAX_CHARACTERS:
        return f"longer than {MAX_CHARACTERS} characters"
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def is_blank(tree: ast.Module) -> bool:
    """Whether a program holds nothing but comments and a docstring: any other such program is the same tree."""
    return not tree.body[1:] if ast.get_docstring(tree) is not None else not tree.body


def same_tree(first: ast.Module, second: ast.Module) -> bool:
    """Whether two programs are one but for white space, comments, quotes and docstrings."""
    try:
        return _dump(first) == _dump(second)
    except _CANNOT_BE_WRITTEN:
        return False


def _dump(tree: ast.Module) -> str:
    bare = ast.parse(ast.unparse(tree))
    for node in ast.walk(bare):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return ast.dump(bare)


def wrong_types(tree: ast.Module) -> list[str]:
    """Lines on which a constant contradicts the type that is stated for it; none where a type is too deep to read."""
    try:
        return [f"line {node.lineno}: {ast.unparse(annotation)}" for annotation, node in _typed_constants(tree)
                if not _fits(node.value, annotation)]  # fmt: skip
    except _CANNOT_BE_WRITTEN:
        return []


def _typed_constants(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.Constant]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
            yield node.annotation, node.value
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.posonlyargs + node.args.args
            given: Sequence[ast.expr | None] = node.args.defaults
            pairs = [*zip(arguments[len(arguments) - len(given) :], given, strict=True)]
            pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, default in pairs:
                # `x: int = None` is how many write an optional argument.
                if argument.annotation and isinstance(default, ast.Constant) and default.value is not None:
                    yield argument.annotation, default
            if node.returns is not None:
                yield from ((node.returns, value) for value in _returned(node))


def _returned(function: ast.FunctionDef) -> Iterator[ast.Constant]:
    """Constants that a function itself returns; those of functions inside of it are theirs."""
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
            yield node.value
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            queue.extend(ast.iter_child_nodes(node))


def _fits(value: object, annotation: ast.expr) -> bool:
    """Whether a constant may have the type; True for every type that is not one of the built-in ones."""
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return value is None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _fits(value, annotation.left) or _fits(value, annotation.right)
    if not isinstance(annotation, ast.Name) or annotation.id not in _BUILT_IN:
        return True
    if isinstance(value, bool) and annotation.id != "bool":
        return annotation.id != "str" and annotation.id != "bytes"  # a truth is a number to Python
    return isinstance(value, _BUILT_IN[annotation.id])


def resources(tree: ast.Module) -> set[str]:
    """Modules and functions that ask for what a solution has no need of."""
    found: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            names = _imported_by_call(node)
        found |= {name for name in names if _is_resource(name)}
    return found


def _imported_by_call(call: ast.Call) -> list[str]:
    """The module that `__import__("x")` or `import_module("x")` names."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    first = call.args[0] if call.args else None
    if name in ("__import__", "import_module") and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return [first.value]
    return []


def _is_resource(name: str) -> bool:
    return name.partition(".")[0] in _MODULES or name in _CALLS or name.startswith(_PREFIXES)
