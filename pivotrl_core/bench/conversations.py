"""Real conversations to profile: the embedded help desk's expert trajectories, or a file of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Request
from pivotrl_core.environments.recording import iter_trajectories
from pivotrl_core.environments.registry import get_expert_domain
from pivotrl_core.errors import DataError
from pivotrl_core.pivots.candidates import iterate_candidates
from pivotrl_core.seeding import derive_seed
from pivotrl_core.trajectories.loading import load_trajectories, trajectory_files
from pivotrl_core.types import Candidate, Message, Split, Tool, Trajectory

DOMAIN = "helpdesk"


def desk_candidates(count: int) -> list[Candidate]:
    """The first `count` turns of the embedded domain's expert trajectories."""
    domain = get_expert_domain(DOMAIN)
    found = (
        candidate
        for trajectory in iter_trajectories(domain, Split.TRAIN, count, seed=0)
        for candidate in iterate_candidates(trajectory, Split.TRAIN)
    )
    return list(islice(found, count))


def long_trajectories(renderer: ChatRenderer, count: int, tokens: int, source: Path | None) -> list[Trajectory]:
    """Trajectories to profile at every turn.

    The help desk's have a few hundred tokens: as many as give about `tokens` are joined to one conversation, under one
    system message. Those of a file are taken as they are.

    Raises:
        DataError: the file has none.
    """
    if source is not None:
        loaded = load_trajectories(trajectory_files(source)).trajectories
        if not loaded:
            raise DataError(f"{source}: no trajectories here; see what `pivotrl inspect` says of it")
        return list(loaded[:count])
    domain = get_expert_domain(DOMAIN)
    supply = iter(list(iter_trajectories(domain, Split.TRAIN, 16 * count * max(1, tokens // 1000), seed=0)))
    return [_joined(renderer, supply, tokens) for _ in range(count)]


def turn_requests(
    renderer: ChatRenderer, trajectories: Sequence[Trajectory], samples: int, turns: int = 0
) -> list[Request]:
    """A request for `samples` continuations at every assistant turn, or at `turns` of each trajectory.

    Those are spread evenly, with the last one among them.
    """
    requests = []
    for at, trajectory in enumerate(trajectories):
        candidates = list(enumerate(iterate_candidates(trajectory, Split.TRAIN)))
        wanted = min(turns or len(candidates), len(candidates))
        for turn, candidate in (candidates[len(candidates) * (n + 1) // wanted - 1] for n in range(wanted)):
            state = renderer.state_ids(candidate.state, candidate.tools)
            seeds = tuple(derive_seed("bench", at, turn, k) for k in range(samples))
            requests.append(Request(f"{at}-{turn}", state, seeds))
    return requests


def _joined(renderer: ChatRenderer, supply: Iterator[Trajectory], tokens: int) -> Trajectory:
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    for trajectory in supply:
        messages += trajectory.messages[1:] if messages else trajectory.messages
        tools = trajectory.tools
        if len(renderer.state_ids(messages, tools)) >= tokens:
            break
    return Trajectory(messages, tools, source="joined")
