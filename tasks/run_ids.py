"""Run ids: what a flow run is called everywhere. They become folders, git refs and tags, so they are plain words."""

from __future__ import annotations

import re
import secrets
import time

from pivotrl_core.errors import ConfigError

_MADE = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$")
# A subset of what git takes for a ref; without dots, so that no folder of a run is another one's owner file or state.
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new_run_id() -> str:
    """Time of day and four random hex digits, such as 20260314-020000-9f3a."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def made_run_id(name: str) -> str | None:
    """The id made by `new_run_id` that the name of a flow run ends in (`nightly-20260314-020000-9f3a`), else None."""
    found = _MADE.search(name)
    return found[0] if found else None


def is_run_id(text: str) -> bool:
    """Whether a text may be a run id."""
    return _ALLOWED.fullmatch(text) is not None


def check_run_id(text: str) -> str:
    """The id as it is. Raises ConfigError for what cannot be the name of a folder and of a git ref."""
    if not is_run_id(text):
        raise ConfigError(
            f"run_id {text!r}: it names a folder and a git ref; give up to 64 letters, digits, '-' and '_', or none"
        )
    return text
