"""Hub source: a data set repository of the Hugging Face hub at one revision.

The revision that the configuration names (a branch or tag is allowed) is resolved to a commit, and that commit is
recorded in the manifest. Files already downloaded are found in the hub's own cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pivotrl_core.engines.hub import HubRepository
from tasks.pull.folder import FolderOrigin
from tasks.pull.retry import retry


@dataclass(frozen=True, slots=True)
class HubSource:
    """A data set repository.

    Attributes:
        repo: `owner/name`.
        revision: Commit, tag or branch. Only a commit makes two pulls certain to see the same data.
        patterns: Shell patterns of the files to take.
    """

    repo: str
    revision: str
    patterns: tuple[str, ...]

    def open(self) -> FolderOrigin:
        """Resolve the revision and download what matches; the result is a folder."""
        named = HubRepository("dataset", self.repo, self.revision)
        pinned = replace(named, revision=retry(named.resolve))
        folder = retry(lambda: pinned.download(self.patterns))
        # With other patterns it is another source: what they leave out must not stay in use as 'gone'.
        identity = {"kind": "hub", "repo": self.repo, "patterns": " ".join(self.patterns)}
        return FolderOrigin(identity, folder, pinned.revision, self.patterns)
