"""Git, asked and told by its plumbing: facts about a checkout, and objects and refs of our own.

Invariant: the user's branch, index and files are never touched; what needs an index uses a temporary one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import ConfigError
from tasks.confidential import holds_key, reason_to_omit

RUN_REFS = "refs/pivotrl/runs/"
# What a run's record keeps beside HEAD's tree anyway; a change of these alone is no change of the code.
RECORDED = ("params.yaml", "graph.yaml", "dvc.lock")
_SUBMODULE = "a submodule: its commit is recorded, not its files, and a private worktree has none of them"
_AUTHOR = {"GIT_AUTHOR_NAME": "pivotrl", "GIT_AUTHOR_EMAIL": "pivotrl@localhost",
           "GIT_COMMITTER_NAME": "pivotrl", "GIT_COMMITTER_EMAIL": "pivotrl@localhost"}  # fmt: skip


class GitError(ConfigError):
    """Git refused. The message is git's own."""


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files of a checkout at one moment.

    Attributes:
        tree: Git's hash of them.
        diff: Binary patch against HEAD, untracked files included; empty for a clean checkout. Without ignored files,
            and without those that a record keeps anyway (`RECORDED`).
        left_out: Files that are in neither, each with the reason in brackets: they are large, seem to hold keys or
            data, or belong to another repository. Of a tracked file, HEAD's state is in both.
    """

    tree: str
    diff: bytes
    left_out: tuple[str, ...]


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
            message = without_credentials(answer.stderr.decode("utf-8", "replace").strip())
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

    def working_tree(self) -> WorkingTree:
        """The files of the checkout as they are now, untracked ones included."""
        with self._temporary_index() as environment:
            self.git("read-tree", "HEAD", environment=environment)
            self.git("add", "--update", "--", ".", environment=environment)
            omitted = dict.fromkeys(self._changed_to_hold_keys(environment), "a key is in its changes")
            self._put("reset", "--quiet", "HEAD", names=omitted, environment=environment)
            omitted |= dict.fromkeys(self._submodules(environment), _SUBMODULE)
            untracked = {name: self._reason(name) for name in self._untracked(environment)}
            self._put("add", names=[name for name, reason in untracked.items() if not reason], environment=environment)
            omitted |= {name: reason for name, reason in untracked.items() if reason}
            kept = [f":(exclude,top){name}" for name in RECORDED]
            # Plumbing, not `git diff`: that one follows the user's settings (prefixes, context lines, text conversion),
            # and a patch made by them applies at the wrong place or not at all.
            diff = self.git("diff-index", "--cached", "--binary", "HEAD", "--", ".", *kept, environment=environment)
            tree = self.git("write-tree", environment=environment).decode().strip()
        return WorkingTree(tree, diff, tuple(f"{name} ({reason})" for name, reason in sorted(omitted.items())))

    def _put(self, *command: str, names: Iterable[str], environment: Mapping[str, str]) -> None:
        """Add or reset files of an index by their literal names, as many as there are."""
        data = "\0".join(names).encode("utf-8", "surrogateescape")
        if data:
            literal = {**environment, "GIT_LITERAL_PATHSPECS": "1"}
            self.git(*command, "--pathspec-from-file=-", "--pathspec-file-nul", data=data, environment=literal)

    def _changed_to_hold_keys(self, environment: Mapping[str, str]) -> list[str]:
        """Tracked files whose new lines hold a key, by an index that has them."""
        changed = self.git("diff-index", "--cached", "--name-only", "-z", "--diff-filter=d", "HEAD", "--", ".",
                           environment=environment)  # fmt: skip
        files = [name for name in _names(changed) if (self.root / name).is_file()]
        return [n for n in files if holds_key(n, (self.root / n).read_bytes(), self.read("HEAD", n) or b"")]

    def _submodules(self, environment: Mapping[str, str]) -> list[str]:
        """Folders that an index has as commits of other repositories."""
        entries = _names(self.git("ls-files", "--stage", "-z", environment=environment))
        return [one.partition("\t")[2] + "/" for one in entries if one.startswith("160000 ")]

    def _untracked(self, environment: Mapping[str, str]) -> list[str]:
        """What HEAD does not have and git does not ignore, whether staged or not: the temporary index is HEAD's."""
        names = _names(self.git("ls-files", "--others", "--exclude-standard", "-z", environment=environment))
        return [n for n in names if n.endswith("/") or (self.root / n).is_symlink() or (self.root / n).is_file()]

    def _reason(self, name: str) -> str:
        """Why an untracked file is no part of the working tree; empty where it is. Git names a repository `folder/`."""
        return "a git repository of its own" if name.endswith("/") else reason_to_omit(self.root, name)

    def changed_files(self, old: str, new: str) -> list[str]:
        """Files that differ between two trees, beside those that a run itself writes."""
        return [name for name in _names(self.git("diff-tree", "-r", "-z", "--name-only", old, new))
                if name not in ("graph.yaml", "dvc.lock")]  # fmt: skip

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
        return _names(self.git("ls-tree", "-r", "-z", "--name-only", commit, "--", *folders))

    def fetch_runs(self) -> None:
        """Bring the run refs of `origin`, where there is such a remote."""
        if "origin" in self.text("remote").split():
            self.git("fetch", "--quiet", "origin", f"+{RUN_REFS}*:{RUN_REFS}*")


def _names(listing: bytes) -> list[str]:
    """Paths that git printed with `-z`."""
    return [name for name in listing.decode("utf-8", "surrogateescape").split("\0") if name]
