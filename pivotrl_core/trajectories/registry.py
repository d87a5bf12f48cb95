"""Which formats are read: one line each, asked in this order."""

from __future__ import annotations

from pivotrl_core.trajectories.nemo_gym import NemoGymReader
from pivotrl_core.trajectories.openai_chat import OpenAIChatReader
from pivotrl_core.trajectories.protocol import TrajectoryReader
from pivotrl_core.types import Json

READERS: tuple[TrajectoryReader, ...] = (
    NemoGymReader(),
    OpenAIChatReader(),
)


def detect_reader(row: Json) -> TrajectoryReader | None:
    """The first reader that recognises a row, or None."""
    if not isinstance(row, dict):
        return None
    return next((reader for reader in READERS if reader.recognises(row)), None)
