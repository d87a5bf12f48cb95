"""torchrun around a stage that several processes compute together: the same program in each of them.

Where one of them fails, torchrun ends the others; what this program ends with says whether a retry makes sense.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterable, Sequence

from pivotrl_core.errors import EXIT_CONFIG, EXIT_DATA, EXIT_SOFTWARE, EXIT_TEMPORARY, ConfigError, PivotRLError
from pivotrl_core.training.ranks import RANKS_FILE


class RanksFailedError(PivotRLError):
    """A process of a stage failed. The message says which; what it says itself stands above."""

    def __init__(self, codes: dict[int, int]) -> None:
        self.exit_code = exit_code(codes.values())
        told = ", ".join(f"rank {rank}: {code}" for rank, code in sorted(codes.items()))
        super().__init__(f"a process of this stage failed, and all were ended (exit codes, {told}); see what it says")


def exit_code(codes: Iterable[int]) -> int:
    """The exit code of all from those of the ranks (below 0: a signal's): what failed by itself decides.

    A rank that lost another one fails for that reason, and torchrun ends the rest by SIGTERM.
    """
    known = list(codes)
    own = [code for code in known if code in (EXIT_CONFIG, EXIT_DATA, EXIT_TEMPORARY)]
    killed = [128 - code for code in known if code < 0 and code not in (-signal.SIGTERM, -signal.SIGABRT)]
    return (own or killed or [EXIT_SOFTWARE])[0]


def is_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    """Which of its stage's processes this is; 0 where it is alone."""
    return int(os.environ["RANK"]) if is_launched() else 0


def check_launched(processes: int) -> None:
    """See that torchrun started as many processes as are configured.

    Raises:
        ConfigError: another number; results depend on it, so it is the configuration's.
    """
    found = int(os.environ["WORLD_SIZE"])
    if found != processes:
        raise ConfigError(
            f"torchrun started {found} processes, and this stage has {processes}; set compute.processes to the number "
            "on all machines together (stages other than train have one), or start as many"
        )


def launch(processes: int, module: str, arguments: Sequence[str]) -> None:
    """Run a module in so many processes on this machine, until all have ended.

    They find each other by files, in place of torch's servers, which would listen on all interfaces without a password.

    Raises:
        RanksFailedError: one of them failed.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun sets it and warns; stages set threads themselves
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")  # what they send each other stays on this machine
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    with tempfile.TemporaryDirectory(prefix="pivotrl-ranks-") as folder:
        os.environ[RANKS_FILE] = f"{folder}/ranks"
        options = ["--nproc-per-node", str(processes), "--rdzv-backend", "c10d", "--rdzv-id", "pivotrl"]
        options += ["--rdzv-endpoint", f"{folder}/agent", "--rdzv-conf", "store_type=file"]
        try:
            run(parse_args([*options, "-m", module, *arguments]))  # type: ignore[no-untyped-call]
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            raise RanksFailedError(codes) from None
