"""Two processes of which the second fails, or never comes, while the first one waits for it. For torchrun."""

from __future__ import annotations

import sys
import time

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.errors import ConfigError
from pivotrl_core.processes import leave
from pivotrl_core.training.ranks import joined_ranks

MINUTES = {"raise": 2.0, "hang": 0.2}
"""That one waits for the other, also for it to start, which takes some seconds on a busy machine."""


def main(how: str) -> None:
    with joined_ranks(ComputeConfig(processes=2, collective_minutes=MINUTES[how])) as ranks:
        if ranks.rank == 1 and how == "raise":
            raise ConfigError("the second rank cannot go on")
        if ranks.rank == 1:
            time.sleep(600.0)
        ranks.gather("here")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ConfigError as error:
        leave(error.exit_code)
