"""Git, asked and told by its plumbing: facts about a checkout, and objects and refs of our own.

Invariant: the user's branch, index and files are never touched; what needs an index uses a temporary one.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.errors import ConfigError

RUN_REFS = "refs/pivotrl/runs/"
# What a run's record keeps beside HEAD's tree anyway; a change of these alone is no change of the code.
RECORDED = ("params.yaml", "graph.yaml", "dvc.lock")
_LARGEST_UNTRACKED = 10 << 20  # bytes; a bigger untracked file is data, not code
# A record is shared with its git repository. Names of files that hold keys; code (.py) is taken whatever its name.
_HOLDS_KEYS = re.compile(
    r"""(^|/)(secrets?|credentials|\.ssh|\.aws|\.kube)/
    | (^|/)(\.env|\.netrc|\.pypirc|\.git-credentials|kubeconfig|id_(rsa|dsa|ecdsa|ed25519))[^/]*$
    | (credential|secret|passwd|password|api[-_]?key|access[-_]?key|aws[-_]keys?|(?<![a-z])tokens?(?![a-z]))[^/]*$
    | \.(pem|key|p12|pfx|jks|kdbx)$""",
    re.IGNORECASE | re.VERBOSE,
)
_HOLDS_DATA = re.compile(r"\.(jsonl|ndjson|traj|parquet|csv)(\.gz|\.zst)?$|\.json\.(gz|zst)$", re.IGNORECASE)
"""A pull records data by hash; records are pushed and shown, and trajectories may be private."""
_AUTHOR = {"GIT_AUTHOR_NAME": "pivotrl", "GIT_AUTHOR_EMAIL": "pivotrl@localhost",
           "GIT_COMMITTER_NAME": "pivotrl", "GIT_COMMITTER_EMAIL": "pivotrl@localhost"}  # fmt: skip


class GitError(ConfigError):
    """Git refused. The message is git's own."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One checkout or worktree."""

    root: Path

    def git(self, *arguments: str, data: bytes | None = None, environment: Mapping[str, str] | None = None) -> bytes:
        """Run git and return what it printed. Raises GitError with git's message."""
        clean = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
        command = ["git", "-c", "core.quotePath=false", "-C", str(self.root), *arguments]
        try:
            answer = subprocess.run(
                command, input=data, capture_output=True, check=False, env={**clean, **(environment or {})}
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed, or not in PATH; install git") from error
        if answer.returncode != 0:
            message = answer.stderr.decode("utf-8", "replace").strip()
            remedy = "; `git init` and commit once, then run again" if "not a git repository" in message else ""
            raise GitError(f"{self.root}: git {arguments[0]}: {message or f'exit {answer.returncode}'}{remedy}")
        return answer.stdout

    def text(self, *arguments: str) -> str:
        """Like `git`, as text without the last newline."""
        return self.git(*arguments).decode("utf-8", "replace").rstrip("\n")

    def resolve(self, revision: str) -> str | None:
        """The commit that a revision names, None where it names none."""
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        except GitError:
            return None

    def head(self) -> str:
        """The commit that is checked out. Raises GitError where there is none yet."""
        commit = self.resolve("HEAD")
        if commit is None:
            self.git("rev-parse", "--git-dir")  # says in git's words where there is no repository, or one it distrusts
            raise GitError(f"{self.root}: no git commit to stand on; commit once, then run again")
        folder = self.text("rev-parse", "--show-prefix")
        if folder:
            remedy = "clone the project, or `git init` and commit in it, then run again"
            raise GitError(f"{self.root}: the checkout is a folder ({folder}) of another repository; {remedy}")
        return commit

    def changes(self) -> bytes:
        """Uncommitted changes as a binary patch against HEAD, untracked files included; empty for a clean tree.

        Left out: ignored files, files that a record keeps anyway (`RECORDED`), and what `left_out` names.
        """
        with self._temporary_index() as environment:
            self.git("read-tree", "HEAD", environment=environment)
            self.git("add", "--update", "--", ".", environment=environment)
            new = "\0".join(self._new_files(environment))
            if new:
                literal = {**environment, "GIT_LITERAL_PATHSPECS": "1"}
                names = new.encode("utf-8", "surrogateescape")
                self.git("add", "--pathspec-from-file=-", "--pathspec-file-nul", data=names, environment=literal)
            kept = [f":(exclude,top){name}" for name in RECORDED]
            # Plumbing, not `git diff`: that one follows the user's settings (prefixes, context lines, text conversion),
            # and a patch made by them applies at the wrong place or not at all.
            return self.git("diff-index", "--cached", "--binary", "HEAD", "--", ".", *kept, environment=environment)

    def left_out(self) -> list[str]:
        """Untracked files that `changes` leaves out: above 10 MiB, or named as files are that hold keys or data."""
        with self._temporary_index() as environment:
            self.git("read-tree", "HEAD", environment=environment)
            return [name for name in self._untracked(environment) if not self._is_taken(name)]

    def _new_files(self, environment: Mapping[str, str]) -> Iterator[str]:
        return (name for name in self._untracked(environment) if self._is_taken(name))

    def _untracked(self, environment: Mapping[str, str]) -> Iterator[str]:
        """What HEAD does not have and git does not ignore, whether staged or not: the temporary index is HEAD's."""
        listing = self.git("ls-files", "--others", "--exclude-standard", "-z", environment=environment)
        names = filter(None, listing.decode("utf-8", "surrogateescape").split("\0"))
        return (name for name in names if (self.root / name).is_symlink() or (self.root / name).is_file())

    def _is_taken(self, name: str) -> bool:
        path = self.root / name
        small = path.is_symlink() or path.stat().st_size <= _LARGEST_UNTRACKED
        return small and (path.suffix == ".py" or not (_HOLDS_KEYS.search(name) or _HOLDS_DATA.search(name)))

    @contextmanager
    def _temporary_index(self) -> Iterator[dict[str, str]]:
        with tempfile.TemporaryDirectory() as folder:
            yield {"GIT_INDEX_FILE": str(Path(folder) / "index")}

    def write_commit(self, files: Mapping[str, bytes], message: str, parent: str) -> str:
        """A commit object: the parent's tree with `files` put in or replaced. No ref, index or file is touched."""
        with self._temporary_index() as environment:
            self.git("read-tree", parent, environment=environment)
            lines = [f"100644 {self._write_blob(content)}\t{path}\0" for path, content in sorted(files.items())]
            self.git("update-index", "-z", "--index-info", data="".join(lines).encode(), environment=environment)
            tree = self.git("write-tree", environment=environment).decode().strip()
        return self.git("commit-tree", tree, "-p", parent, data=message.encode(), environment=_AUTHOR).decode().strip()

    def _write_blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", data=content).decode().strip()

    def set_ref(self, ref: str, commit: str) -> None:
        """Create or move a ref."""
        self.git("update-ref", ref, commit)

    def read(self, commit: str, path: str) -> bytes | None:
        """A file of a commit, None where it has no such file."""
        try:
            return self.git("cat-file", "blob", f"{commit}:{path}")
        except GitError:
            return None

    def list_files(self, commit: str, folders: Sequence[str]) -> list[str]:
        """Paths of a commit's files below some folders."""
        listing = self.git("ls-tree", "-r", "-z", "--name-only", commit, "--", *folders).decode()
        return [name for name in listing.split("\0") if name]

    def fetch_runs(self) -> None:
        """Bring the run refs of `origin`, where there is such a remote."""
        if "origin" in self.text("remote").split():
            self.git("fetch", "--quiet", "origin", f"+{RUN_REFS}*:{RUN_REFS}*")
