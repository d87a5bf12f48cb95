"""All benchmarks by name, in the order of the configuration's list. The one place that knows every benchmark file."""

from __future__ import annotations

from collections.abc import Mapping

from pivotrl_core.config.stages import EMBEDDED
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.benchmarks.aime25 import AIME25
from pivotrl_core.evaluation.benchmarks.ifbench import IFBench
from pivotrl_core.evaluation.benchmarks.livecodebench import LiveCodeBench
from pivotrl_core.evaluation.benchmarks.math500 import MATH500
from pivotrl_core.evaluation.benchmarks.mmlu_pro import MMLUPro
from pivotrl_core.evaluation.benchmarks.mmlu_prox import MMLUProX
from pivotrl_core.evaluation.benchmarks.scicode import SciCode
from pivotrl_core.evaluation.benchmarks.wmt24pp import WMT24PP
from pivotrl_core.evaluation.protocol import Benchmark

_ALL: tuple[Benchmark, ...] = (
    IFBench(),
    AIME25(),
    MATH500(),
    LiveCodeBench(),
    SciCode(),
    MMLUPro(),
    MMLUProX(),
    WMT24PP(),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}


def get_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`, with or without its `-embedded`.

    Raises:
        ConfigError: there is none; the message lists the names.
    """
    for known in (name, f"{name}{EMBEDDED}"):
        if known in BENCHMARKS:
            return BENCHMARKS[known]
    raise ConfigError(f"There is no benchmark {name!r}; choose from {', '.join(BENCHMARKS)}.")
