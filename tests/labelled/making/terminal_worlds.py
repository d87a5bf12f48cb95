"""Small workspaces of many kinds, and other copies of each: the same names at the top, other contents.

`world(name, copy)`: copy 0 is the workspace that rows name, the others tell apart what agrees in it by chance. Contents
come from a seeded generator; what lies at the top has the same names in every copy, folders below may hold others.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.workspace import Node, NodeKind, make_workspace
from tests.labelled.making.terminal_trees import WORLDS


@functools.cache
def world(name: str, copy: int) -> dict[str, Node]:
    """The nodes of a workspace; equal arguments give equal bytes."""
    files = WORLDS[name](random.Random(f"{name}/{copy}"))
    nodes = {path: Node(NodeKind.FILE, text.encode(), path.endswith(".sh")) for path, text in files.items()}
    for path, text in files.items():
        if text.startswith("-> "):
            nodes[path] = Node(NodeKind.LINK, text[3:].encode())
        if path.endswith("/"):
            nodes[path.rstrip("/")] = Node(NodeKind.FOLDER)
            del nodes[path]
    for path in list(nodes):
        while "/" in path:
            path = path.rpartition("/")[0]
            nodes.setdefault(path, Node(NodeKind.FOLDER))
    return _with_history(nodes) if name == "repository" else nodes


def _with_history(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The files as a git repository of one commit each, made by git in the sandbox with fixed times."""
    script = """
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com
export GIT_AUTHOR_DATE=2024-03-09T10:00:00Z GIT_COMMITTER_DATE=2024-03-09T10:00:00Z
git init -q --template= -b main . ; day=10
git config user.name Ada; git config user.email ada@example.com
commit() { GIT_AUTHOR_DATE="2024-03-${day}T10:00:00Z" GIT_COMMITTER_DATE="2024-03-${day}T10:00:00Z" \
  git commit -q -m "$1"; day=$((day + 1)); }
for file in $(git ls-files -o | sort); do git add "$file"; commit "Add $file"; done
sed -i '$d' README.md; git add README.md; commit 'Shorten the README'
git branch feature/search HEAD~2; git tag v0.1 HEAD~3
echo 'print("draft")' > draft.py; echo '# local' >> src/app.py
[ $(wc -l < CHANGELOG) -gt 2 ] && echo draft >> CHANGELOG
git read-tree HEAD
"""
    result = sandbox.run_in_workspace(["/bin/bash", "-c", script], make_workspace(nodes))
    assert result.exit_status == 0, result.stderr
    assert result.tree is not None
    return {path: node for path, node in result.tree.nodes.items() if node.kind is not NodeKind.SPECIAL}
