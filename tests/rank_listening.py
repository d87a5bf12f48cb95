"""Two processes that say where they and the torchrun above them listen. For torchrun."""

from __future__ import annotations

import psutil

from pivotrl_core.config.stages import ComputeConfig
from pivotrl_core.training.ranks import joined_ranks


def listening(process: psutil.Process) -> list[str]:
    """The addresses at which a process takes connections."""
    return [str(one.laddr.ip) for one in process.net_connections() if one.status == psutil.CONN_LISTEN]


if __name__ == "__main__":
    own = psutil.Process()
    torchrun = own.parent()
    assert torchrun is not None
    with joined_ranks(ComputeConfig(processes=2)) as ranks:
        found = ranks.gather(listening(own) + listening(torchrun))
        if ranks.writes:
            print("listening:", *sorted({address for addresses in found for address in addresses}))
