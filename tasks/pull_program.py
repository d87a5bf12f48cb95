"""`python -m tasks.pull_program CHECKOUT [--prune]`: the pull of a run as its own program, so that it has a deadline.

It works in the checkout or worktree that it is started in, with the parameters there; relative paths of theirs are
relative to CHECKOUT. Whoever starts it holds the project lock. What a killed one had fetched is used by the next one:
it lies beside the pulled folder, and for a private worktree, which is removed with its run, in the state folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pivotrl_core.config.loading import load_config
from pivotrl_core.errors import PivotRLError
from tasks.settings import find_state
from tasks.sources import pull_inputs


def main(arguments: list[str]) -> int:
    """Pull. Returns the exit code of `pivotrl_core/errors.py`."""
    root, checkout, prune = Path.cwd(), Path(arguments[0]), "--prune" in arguments[1:]
    try:
        state = find_state(checkout)
        staging = state.staging if root.is_relative_to(state.worktrees.resolve()) else None
        pull_inputs(load_config(root / "params.yaml"), root, checkout, prune, staging)
    except PivotRLError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
