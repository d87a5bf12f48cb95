"""The ranks of a training: its processes, which one this is, what share of a batch is its own, and how they agree.

What moves between ranks here is small: samples, sums, decisions. torch.distributed does the transport, and
`sharded.py` says how weights and gradients are divided. One process is one rank, and needs none of it.

Invariant: ranks make the same calls in the same order. Each of them ends in an error where one rank is lost, at the
latest after `compute.collective_minutes`, and torchrun then ends the others.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pivotrl_core.errors import ConfigError

if TYPE_CHECKING:
    from pivotrl_core.config.stages import ComputeConfig

Value = TypeVar("Value")

RANKS_FILE = "PIVOTRL_RANKS_FILE"
"""Environment variable: the file by which ranks on one machine find each other. Without it torch's server is asked."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank `rank` of `count`."""

    rank: int = 0
    count: int = 1

    @property
    def writes(self) -> bool:
        """Whether this rank writes what a training leaves behind: the first one alone does."""
        return self.rank == 0

    def share(self, number: int) -> range:
        """The part of `number` things that is this rank's: contiguous, and about as many for each.

        >>> [Ranks(rank, 3).share(4) for rank in range(3)]
        [range(0, 1), range(1, 2), range(2, 4)]
        """
        return range(number * self.rank // self.count, number * (self.rank + 1) // self.count)

    def gather(self, value: Value) -> list[Value]:
        """Every rank's value, in the order of ranks."""
        if self.count == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Value) -> Value:
        """The first rank's value."""
        if self.count == 1:
            return value
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]


ONE_RANK = Ranks()


@contextmanager
def joined_ranks(compute: ComputeConfig) -> Iterator[Ranks]:
    """The ranks of this training, for the time of the block; where there are several, they have found each other.

    Those on one machine divide its threads, and find each other by the file in `RANKS_FILE`, where it is set.

    Raises:
        ConfigError: torchrun did not start this process.
    """
    if compute.processes == 1:
        yield ONE_RANK
        return
    import torch
    import torch.distributed as dist

    if not dist.is_torchelastic_launched():
        raise ConfigError(
            f"compute.processes is {compute.processes}, and torchrun did not start this process; `pivotrl stage train` "
            "does so on one machine, and docs/operations.md has the command for several"
        )
    if compute.device == "cuda":
        torch.cuda.set_device(dist.get_node_local_rank())
    # Objects and offloaded shards travel by gloo, whatever the device.
    backend = "gloo" if compute.device == "cpu" else "cpu:gloo,cuda:nccl"
    timeout = timedelta(minutes=compute.collective_minutes)
    if (file := os.environ.get(RANKS_FILE)) is not None:
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(file, count)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=timeout)
    else:
        dist.init_process_group(backend, timeout=timeout)
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    hosts = ranks.gather(socket.gethostname())
    torch.set_num_threads(max(1, compute.threads // hosts.count(socket.gethostname())))
    yield ranks
    # Not in an error: what one rank says of itself must come before the others say that they lost it.
    dist.destroy_process_group()
