"""Profiling: K next turns of the frozen reference policy at every candidate, each scored by the verifier.

Sampling goes in blocks of trajectories. A block is stored when it is whole, under a name that says everything its
samples depend on; a profile that was killed carries on at the first block that is missing, and a later profile with the
same policy, verifier and sampling computes only what is new.

Source: PivotRL, arXiv 2603.21383, section 3: mu and sigma^2 of the functional reward under pi_0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, SamplingConfig, TokenCount
from pivotrl_core.errors import DataError
from pivotrl_core.files import code_digest, read_json, write_json
from pivotrl_core.pivots.tables import read_table, records, write_table
from pivotrl_core.seeding import derive_seed
from pivotrl_core.trajectories import thinking
from pivotrl_core.types import Candidate, Json, Verdict, content_id
from pivotrl_core.verifiers import parsing
from pivotrl_core.verifiers.protocol import Verifier

log = logging.getLogger(__name__)
ROLLOUT_SCHEMA = pa.schema([
    pa.field("candidate_id", pa.string(), nullable=False),
    pa.field("sample", pa.int64(), nullable=False),
    pa.field("ids", pa.list_(pa.int32()), nullable=False),
    pa.field("logprob", pa.float64(), nullable=False),
    pa.field("finish", pa.string(), nullable=False),
    pa.field("reward", pa.float64(), nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("components", pa.string(), nullable=False),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled action at a candidate: its ids, their summed log-probability under pi_0, and the verdict."""

    candidate_id: str
    sample: int
    ids: tuple[int, ...]
    logprob: float
    finish: str
    verdict: Verdict

    def columns(self) -> dict[str, Json]:
        """The rollout as the columns of a file."""
        return {
            "candidate_id": self.candidate_id,
            "sample": self.sample,
            "ids": list(self.ids),
            "logprob": self.logprob,
            "finish": self.finish,
            "reward": self.verdict.reward,
            "reason": self.verdict.reason,
            "components": _ascii_json(self.verdict.components),
        }


@dataclass(slots=True)
class ProfileCost:
    """What the profile's samples cost when they were computed, and how much of it was found stored."""

    tokens: TokenCount
    stored_blocks: int = 0
    computed_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Profiler:
    """Samples and verifies; everything that decides a block's content is here.

    Args:
        policy_digest: identifies pi_0's weights and tokenizer, and how it computes (dtype, threads).
        samples: K.
    """

    engine: Engine
    renderer: ChatRenderer
    verifier: Verifier
    sampling: SamplingConfig
    samples: int
    seed: int
    policy_digest: str
    store: Path
    block_trajectories: int

    def profile(
        self, candidates: Sequence[Candidate], on_block: Callable[[int, int, list[Rollout]], None]
    ) -> tuple[list[list[Rollout]], ProfileCost]:
        """K rollouts for each candidate, in order; `on_block(index, of, rollouts)` hears of each finished block."""
        cost = ProfileCost(TokenCount())
        results: list[list[Rollout]] = []
        blocks = list(self._blocks(candidates))
        for index, block in enumerate(blocks):
            rollouts = self._block(block, cost)
            on_block(index, len(blocks), rollouts)
            results += [rollouts[i : i + self.samples] for i in range(0, len(rollouts), self.samples)]
        return results, cost

    def _blocks(self, candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
        """Runs of whole trajectories of one source file, so that new files make new blocks and leave old ones alone."""
        block: list[Candidate] = []
        trajectories: list[str] = []
        source = ""
        for candidate in candidates:
            origin = str(candidate.metadata.get("file", ""))
            new = not trajectories or candidate.trajectory_id != trajectories[-1]
            if block and new and (len(trajectories) == self.block_trajectories or origin != source):
                yield block
                block, trajectories = [], []
            if not trajectories or candidate.trajectory_id != trajectories[-1]:
                trajectories.append(candidate.trajectory_id)
            source = origin
            block.append(candidate)
        if block:
            yield block

    def _block(self, candidates: list[Candidate], cost: ProfileCost) -> list[Rollout]:
        requests = self._requests(candidates)
        path = self.store / f"{self._name(requests)}.parquet"
        stored = _read_block(path, len(candidates) * self.samples)
        if stored is not None:
            cost.stored_blocks += 1
            rollouts, tokens = stored
        else:
            cost.computed_blocks += 1
            before = replace(self.engine.count)
            rollouts = self._sample(candidates, requests)
            tokens = self.engine.count.since(before)
            _write_block(path, rollouts, tokens)
        cost.tokens.add(tokens)
        return rollouts

    def _name(self, requests: Sequence[Request]) -> str:
        sampling = {"temperature": self.sampling.temperature, "max_tokens": self.sampling.max_tokens}
        verifier = [self.verifier.name, self.verifier.version, _reading_code()]
        read = [[request.id, request.prompt_ids] for request in requests]
        written = str(self.renderer.tool_format)
        policy = [self.policy_digest, self.engine.version]
        return content_id([policy, written, verifier, sampling, self.samples, self.seed, read])

    def _requests(self, candidates: Sequence[Candidate]) -> list[Request]:
        return [
            Request(
                candidate.id,
                self.renderer.state_ids(candidate.state, candidate.tools),
                tuple(derive_seed(self.seed, "profile", candidate.id, k) for k in range(self.samples)),
            )
            for candidate in candidates
        ]

    def _sample(self, candidates: Sequence[Candidate], requests: Sequence[Request]) -> list[Rollout]:
        rollouts = []
        for candidate, samples in zip(candidates, self.engine.sample(requests, self.sampling), strict=True):
            for index, sample in enumerate(samples):
                action = self.renderer.parse(sample.ids, candidate.tools)
                verdict = self.verifier.verify(candidate, action)
                rollouts.append(
                    Rollout(candidate.id, index, sample.ids, sum(sample.logprobs), str(sample.finish), verdict)
                )
        return rollouts


def likeliest_success(rollouts: Sequence[Rollout], threshold: float) -> tuple[int, ...] | None:
    """Ids of the success that pi_0 is most likely to write; None where there is no success. Ties: the first sample."""
    successes = [rollout for rollout in rollouts if rollout.verdict.reward >= threshold]
    return max(successes, key=lambda rollout: rollout.logprob).ids if successes else None


def write_rollouts(path: Path, rollouts: Sequence[Rollout]) -> None:
    """Write rollouts, one row each, in their order."""
    write_table(path, "rollouts", ROLLOUT_SCHEMA, [rollout.columns() for rollout in rollouts])


def read_rollouts(path: Path) -> list[Rollout]:
    """Read rollouts in their order. Raises DataError for a file that is none."""
    return [
        Rollout(
            str(row["candidate_id"]),
            int(row["sample"]),
            tuple(int(i) for i in row["ids"]),
            float(row["logprob"]),
            str(row["finish"]),
            Verdict(float(row["reward"]), str(row["reason"]), json.loads(row["components"])),
        )
        for row in records(read_table(path, "rollouts"))
    ]


def _write_block(path: Path, rollouts: Sequence[Rollout], tokens: TokenCount) -> None:
    # The cost travels in a file beside the samples, which is written first: a block that exists is whole.
    cost = {"prefilled": tokens.prefilled, "generated": tokens.generated, "turns": tokens.turns}
    write_json(path.with_suffix(".json"), cost)
    write_rollouts(path, rollouts)


def _read_block(path: Path, count: int) -> tuple[list[Rollout], TokenCount] | None:
    """The stored block of `count` rollouts; None where there is none, or where a disk has spoilt it."""
    if not path.exists():
        return None
    try:
        rollouts, tokens = read_rollouts(path), TokenCount(**read_json(path.with_suffix(".json")))
        if len(rollouts) != count:
            raise DataError(f"{len(rollouts)} rollouts of {count}")
    except (DataError, OSError, ValueError, KeyError, TypeError) as error:
        log.warning("profile block %s is damaged (%s); sampling it again", path.stem, error)
        return None
    return rollouts, tokens


@cache
def _reading_code() -> str:
    """Identifies the code that takes an action from a text and judges it."""
    return code_digest(Path(parsing.__file__).parent, Path(thinking.__file__))


def _ascii_json(value: Json) -> str:
    # ASCII: what a policy wrote may hold half a surrogate pair, which UTF-8 cannot carry.
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
