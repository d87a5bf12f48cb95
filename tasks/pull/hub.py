"""Hub source: a data set repository of the Hugging Face hub at one revision.

The revision that the configuration names (a branch or tag is allowed) is resolved to a commit, and that commit is
recorded in the manifest. Files already downloaded are found in the hub's own cache. Token and endpoint come from the
environment (HF_TOKEN, HF_ENDPOINT).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pivotrl_core.errors import ConfigError, TemporaryError
from pivotrl_core.trajectories.loading import SUFFIXES
from tasks.pull.folder import FolderOrigin
from tasks.pull.retry import retry

_COMMIT = re.compile(r"[0-9a-f]{40}")
DEFAULT_PATTERNS = tuple(f"*{suffix}" for suffix in SUFFIXES)


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
    patterns: tuple[str, ...] = DEFAULT_PATTERNS

    def open(self) -> FolderOrigin:
        """Resolve the revision and download what matches; the result is a folder."""
        commit = self.revision if _COMMIT.fullmatch(self.revision) else retry(self._resolve)
        folder = retry(lambda: self._download(commit))
        # With other patterns it is another source: what they leave out must not stay in use as 'gone'.
        identity = {"kind": "hub", "repo": self.repo, "patterns": " ".join(self.patterns)}
        return FolderOrigin(identity, folder, commit, self.patterns)

    def _resolve(self) -> str:
        from huggingface_hub import HfApi

        with self._translated():
            info = HfApi(endpoint=os.environ.get("HF_ENDPOINT")).dataset_info(self.repo, revision=self.revision)
        if not info.sha:
            raise ConfigError(f"hub.revision {self.revision!r} of {self.repo} names no commit; give a commit")
        return info.sha

    def _download(self, commit: str) -> Path:
        from huggingface_hub import snapshot_download

        with self._translated():
            folder = snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=commit,
                allow_patterns=list(self.patterns),
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        return Path(str(folder))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from httpx import TransportError
        from huggingface_hub import errors

        place = f"hub data set {self.repo} at {self.revision}"
        try:
            yield
        except errors.OfflineModeIsEnabled as error:
            remedy = "unset HF_HUB_OFFLINE, or use a commit that is in the cache, or a folder source"
            raise ConfigError(f"{place}: the hub is switched off; {remedy}") from error
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
            remedy = "check hub.repo and hub.revision; a private or gated repository needs HF_TOKEN"
            raise ConfigError(f"{place}: not found; {remedy}") from error
        except errors.LocalEntryNotFoundError as error:
            if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
                raise ConfigError(f"{place}: not in the local cache and HF_HUB_OFFLINE is set; unset it") from error
            raise TemporaryError(f"{place}: the hub cannot be reached and the cache does not hold it") from error
        except errors.HfHubHTTPError as error:
            raise self._from_status(place, error.response.status_code) from error
        except (TransportError, ConnectionError, TimeoutError) as error:
            raise TemporaryError(f"{place}: the hub cannot be reached ({error})") from error

    @staticmethod
    def _from_status(place: str, status: int) -> ConfigError | TemporaryError:
        if status >= 500 or status in (408, 429):
            return TemporaryError(f"{place}: the hub answered {status}; try again later")
        return ConfigError(f"{place}: the hub answered {status}; check hub.repo, hub.revision and HF_TOKEN")
