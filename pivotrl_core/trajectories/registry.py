"""Which formats are read: one line each, asked in this order, those with a mark of their own first."""

from __future__ import annotations

from pivotrl_core.trajectories.atif import AtifReader
from pivotrl_core.trajectories.mini_swe_agent import MiniSweAgentReader
from pivotrl_core.trajectories.nemo_gym import NemoGymReader
from pivotrl_core.trajectories.openai_chat import OpenAIChatReader
from pivotrl_core.trajectories.openai_responses import OpenAIResponsesReader
from pivotrl_core.trajectories.openhands import OpenHandsReader
from pivotrl_core.trajectories.openhands_sdk import OpenHandsSdkReader
from pivotrl_core.trajectories.protocol import ITEMS, TrajectoryReader
from pivotrl_core.trajectories.sharegpt import ShareGPTReader
from pivotrl_core.trajectories.swe_agent import SweAgentReader
from pivotrl_core.trajectories.tau2_bench import Tau2BenchReader
from pivotrl_core.trajectories.tau_bench import TauBenchReader
from pivotrl_core.types import Json

READERS: tuple[TrajectoryReader, ...] = (
    NemoGymReader(),
    OpenAIResponsesReader(),
    AtifReader(),
    SweAgentReader(),
    OpenHandsReader(),
    OpenHandsSdkReader(),
    Tau2BenchReader(),
    TauBenchReader(),
    MiniSweAgentReader(),
    ShareGPTReader(),
    OpenAIChatReader(),
)


def as_row(value: Json) -> dict[str, Json] | None:
    """What readers are offered for a JSON value: an object itself, a list under the key `items`, nothing else."""
    if isinstance(value, dict):
        return value
    return {ITEMS: value} if isinstance(value, list) else None


def detect_reader(value: Json) -> TrajectoryReader | None:
    """The first reader that recognises a JSON value, or None."""
    row = as_row(value)
    return next((reader for reader in READERS if reader.recognises(row)), None) if row is not None else None
