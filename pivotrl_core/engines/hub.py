"""Repositories of the Hugging Face hub: which commit a revision is, the files at it, and what a failure there means.

A failure that may pass is a TemporaryError. Nothing is tried again here: pulls and the supervision of stages do that.
Files already downloaded are found in the hub's own cache. Token and endpoint come from the environment (HF_TOKEN,
HF_ENDPOINT).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pivotrl_core.errors import ConfigError, TemporaryError

TOKENIZER_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
MODEL_FILES = (*TOKENIZER_FILES, "*.safetensors")
"""What is read of a model's repository, which may hold the same weights several times over, in other formats."""
_NOT_READ = ("*/*", "consolidated*")  # folders, and weights as their authors' own programs name them
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAMES = {"model": "hub model", "dataset": "hub data set"}
_SECTIONS = {"model": "model", "dataset": "source"}


def is_model_file(path: Path) -> bool:
    """Whether a file of a model's folder is one that is read."""
    return f"*{path.suffix}" in MODEL_FILES


def is_commit(revision: str) -> bool:
    """Whether a revision is a whole commit, which never changes, and no branch or tag."""
    return _COMMIT.fullmatch(revision) is not None


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository at a revision.

    Attributes:
        kind: What it holds.
        name: `owner/name`.
        revision: Commit, tag or branch. Only a commit is the same at every look.
    """

    kind: Literal["model", "dataset"]
    name: str
    revision: str

    def resolve(self) -> str:
        """The commit that the revision names now; the hub is asked only where it is none itself.

        Raises:
            ConfigError: there is no such repository or revision, or the hub is switched off.
            TemporaryError: the hub cannot be reached, or has a failure of its own.
        """
        if is_commit(self.revision):
            return self.revision
        from huggingface_hub import HfApi

        with self._translated():
            api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
            info = api.repo_info(self.name, revision=self.revision, repo_type=self.kind)
        if not info.sha:
            raise ConfigError(f"{self}: the revision names no commit; give a commit")
        return info.sha

    def download(self, patterns: Sequence[str]) -> Path:
        """The folder, in the hub's cache, of the files that match a pattern; of a model, of those beside its config.

        Raises:
            ConfigError: there is no such repository or revision, or the hub is switched off and the cache lacks it.
            TemporaryError: the hub cannot be reached, or has a failure of its own.
        """
        from huggingface_hub import snapshot_download

        with self._translated():
            folder = snapshot_download(
                self.name,
                repo_type=self.kind,
                revision=self.revision,
                allow_patterns=list(patterns),
                ignore_patterns=list(_NOT_READ) if self.kind == "model" else None,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        return Path(str(folder))

    def __str__(self) -> str:
        return f"{_NAMES[self.kind]} {self.name} at {self.revision}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from huggingface_hub import errors

        section = _SECTIONS[self.kind]
        try:
            yield
        except errors.OfflineModeIsEnabled as error:
            remedy = "unset HF_HUB_OFFLINE, or use a commit that is in the cache, or a folder"
            raise ConfigError(f"{self}: the hub is switched off; {remedy}") from error
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
            remedy = f"check {section}.repo and {section}.revision; a private or gated repository needs HF_TOKEN"
            raise ConfigError(f"{self}: not found; {remedy}") from error
        except errors.LocalEntryNotFoundError as error:
            if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
                raise ConfigError(f"{self}: not in the local cache and HF_HUB_OFFLINE is set; unset it") from error
            raise TemporaryError(f"{self}: the hub cannot be reached and the cache does not hold it") from error
        except errors.HfHubHTTPError as error:
            raise self._from_status(error.response.status_code) from error
        # The hub's own name for the root of its HTTP client's errors: which client that is differs between versions.
        except (errors.HTTPError, ConnectionError, TimeoutError) as error:  # type: ignore[attr-defined]
            raise TemporaryError(f"{self}: the hub cannot be reached ({error})") from error

    def _from_status(self, status: int) -> ConfigError | TemporaryError:
        if status >= 500 or status in (408, 429):
            return TemporaryError(f"{self}: the hub answered {status}; try again later")
        section = _SECTIONS[self.kind]
        return ConfigError(f"{self}: the hub answered {status}; check {section}.repo, {section}.revision and HF_TOKEN")
