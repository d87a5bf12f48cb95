"""Profiling: K next turns of the frozen reference policy at every candidate, each scored by the verifier.

Sampling goes in blocks of trajectories. A block is stored when it is whole, under a name that says everything its
samples depend on; a profile that was killed carries on at the first block that is missing, and a later profile with the
same policy, verifier and sampling computes only what is new. With a stopping rule (curtailment.py, staging.py) a
candidate gets no more samples than its decisions need; where another block has samples of the same stream, they are
taken from there, and only what they leave open is drawn. (A sample that is drawn in another batch is the same but for
near-ties. So a profile of all K samples takes none from elsewhere: its bytes depend on nothing but its name.)

Source: PivotRL, arXiv 2603.21383, section 3: mu and sigma^2 of the functional reward under pi_0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from threading import Lock

import pyarrow as pa

from pivotrl_core import seeding, types, verifiers
from pivotrl_core.engines import chat
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.protocol import Engine, Request, Sample, SamplingConfig, TokenCount
from pivotrl_core.errors import DataError
from pivotrl_core.files import code_digest, read_json, write_json
from pivotrl_core.pivots.curtailment import StoppingRule
from pivotrl_core.pivots.tables import read_table, records, write_table
from pivotrl_core.seeding import derive_seed
from pivotrl_core.trajectories import arguments, decoding, formatting, parsing, thinking
from pivotrl_core.types import Candidate, Json, Verdict, content_id
from pivotrl_core.verifiers.batches import verify_all
from pivotrl_core.verifiers.judged import judge_tokens
from pivotrl_core.verifiers.protocol import Verifier
from pivotrl_core.verifiers.row_fields import Grounds

log = logging.getLogger(__name__)
READING_CODE = (
    *(Path(verifiers.__path__[0]) / domain for domain in ("", "nemo_gym", "search", "software")),
    *(Path(str(one.__file__)) for one in (arguments, chat, decoding, formatting, parsing, seeding, thinking, types)),
)
"""All the code that takes an action from a text and judges it."""
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
    """What the profile's samples cost when they were computed, and how much of it was found stored.

    `topped_up`: candidates of computed blocks that had some samples stored and drew the others.
    """

    tokens: TokenCount
    stored_blocks: int = 0
    computed_blocks: int = 0
    topped_up: int = 0


@dataclass(frozen=True, slots=True)
class Profiler:
    """Samples and verifies; everything that decides a block's content is here.

    Args:
        policy_digest: identifies pi_0's weights and tokenizer, and how it computes (dtype, threads).
        samples: K.
        success_threshold: reward from which a sample is a success.
        curtailment: when a candidate has enough samples; None: when it has K.
        grounds: digests of what the verifier's verdicts stand on beside state and expert.
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
    success_threshold: float = 1.0
    curtailment: StoppingRule | None = None
    grounds: Grounds = field(default_factory=lambda: Grounds(None))

    def profile(
        self, candidates: Sequence[Candidate], on_block: Callable[[int, int, list[Rollout]], None]
    ) -> tuple[list[list[Rollout]], ProfileCost]:
        """The rollouts of each candidate, in order; `on_block(index, of, rollouts)` hears of each finished block."""
        cost = ProfileCost(TokenCount())
        results: list[list[Rollout]] = []
        blocks = list(self._blocks(candidates))
        for index, block in enumerate(blocks):
            rollouts = self._block(block, cost)
            on_block(index, len(blocks), rollouts)
            results += by_candidate(rollouts, [candidate.id for candidate in block])
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
        stream = self._stream(candidates, requests)
        path = self.store / f"{stream}-{self._plan()}.parquet"
        stored = _read_block(path)
        if stored is not None and not self._is_whole(candidates, stored[0]):
            log.warning("profile block %s is damaged (not all of its rollouts); sampling it again", path.stem)
            stored = None
        if stored is not None:
            cost.stored_blocks += 1
            rollouts, tokens = stored
        else:
            cost.computed_blocks += 1
            known, tokens = self._known(candidates, stream)
            pairs = zip(candidates, known, strict=True)
            cost.topped_up += sum(bool(own) and self._missing(candidate, own) > 0 for candidate, own in pairs)
            before = replace(self.engine.count)
            rollouts = self._sample(candidates, requests, known)
            tokens.add(self.engine.count.since(before))
            _write_block(path, rollouts, tokens)
        tokens.judge = judge_tokens({(one.candidate_id, one.ids): one.verdict for one in rollouts})
        cost.tokens.add(tokens)
        return rollouts

    def _stream(self, candidates: Sequence[Candidate], requests: Sequence[Request]) -> str:
        """Names everything that decides what samples and verdicts at these candidates are, however many are drawn."""
        sampling = {"temperature": self.sampling.temperature, "max_tokens": self.sampling.max_tokens}
        verifier = [self.verifier.name, self.verifier.version, reading_code()]
        read = [
            [request.id, request.prompt_ids, self.grounds.of(candidate)]
            for candidate, request in zip(candidates, requests, strict=True)
        ]
        written = str(self.renderer.tool_format)
        policy = [self.policy_digest, self.engine.version]
        return content_id([policy, written, verifier, sampling, self.seed, read])

    def _plan(self) -> str:
        """Names how many are drawn."""
        if self.curtailment is None:
            return str(self.samples)
        return content_id([self.samples, self.success_threshold, self.curtailment.identity])

    def _requests(self, candidates: Sequence[Candidate]) -> list[Request]:
        return [
            Request(
                candidate.id,
                self.renderer.state_ids(candidate.state, candidate.tools),
                tuple(derive_seed(self.seed, "profile", candidate.id, k) for k in range(self.samples)),
            )
            for candidate in candidates
        ]

    def _missing(self, candidate: Candidate, rollouts: Sequence[Rollout]) -> int:
        """How many more samples to draw, knowing these."""
        if self.curtailment is None:
            return self.samples - len(rollouts)
        successes = sum(rollout.verdict.reward >= self.success_threshold for rollout in rollouts)
        return self.curtailment.needed(candidate.domain, len(rollouts), successes)

    def _is_whole(self, candidates: Sequence[Candidate], rollouts: Sequence[Rollout]) -> bool:
        groups = by_candidate(rollouts, [candidate.id for candidate in candidates])
        return sum(map(len, groups)) == len(rollouts) and all(
            self._missing(candidate, group) == 0 for candidate, group in zip(candidates, groups, strict=True)
        )

    def _known(self, candidates: Sequence[Candidate], stream: str) -> tuple[list[list[Rollout]], TokenCount]:
        """Samples of this stream that another plan has stored, as far as this one would draw them; and their cost."""
        known: list[list[Rollout]] = [[] for _ in candidates]
        tokens = TokenCount()
        if self.curtailment is None:
            return known, tokens
        for path in sorted(self.store.glob(f"{stream}-*.parquet")):
            stored = _read_block(path)
            if stored is None:
                continue
            groups = by_candidate(stored[0], [candidate.id for candidate in candidates])
            if sum(map(len, groups)) > sum(map(len, known)):
                known, tokens.prefilled = groups, stored[1].prefilled
        known = [self._enough(candidate, group) for candidate, group in zip(candidates, known, strict=True)]
        tokens.turns = sum(map(len, known))
        tokens.generated = sum(len(rollout.ids) for group in known for rollout in group)
        return known, tokens

    def _enough(self, candidate: Candidate, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """The first of these, until nothing more would be drawn."""
        count = next((n for n in range(len(rollouts)) if n and not self._missing(candidate, rollouts[:n])), None)
        return list(rollouts[: self.samples if count is None else count])

    def _sample(
        self, candidates: Sequence[Candidate], requests: Sequence[Request], known: Sequence[list[Rollout]]
    ) -> list[Rollout]:
        """What is known, and behind it what is missing."""
        drawn: list[list[Rollout]] = [list(own) for own in known]
        one_at_a_time = Lock()  # lanes ask in threads of their own, and a verifier need not stand that
        rest = [replace(request, seeds=request.seeds[len(own) :]) for request, own in zip(requests, known, strict=True)]

        def judge(at: int, samples: Sequence[Sample]) -> None:
            new = samples[len(drawn[at]) - len(known[at]) :]
            drawn[at] += self._rollouts(candidates[at], len(drawn[at]), new)

        def more(at: int, samples: Sequence[Sample]) -> int:
            with one_at_a_time:
                judge(at, samples)
            return self._missing(candidates[at], drawn[at])

        for at, samples in enumerate(self.engine.sample(rest, self.sampling, more)):
            judge(at, samples)
        return [rollout for own in drawn for rollout in own]

    def _rollouts(self, candidate: Candidate, first: int, samples: Sequence[Sample]) -> list[Rollout]:
        """Rollouts with their verdicts, numbered from `first`."""
        actions = [self.renderer.parse(sample.ids, candidate.tools) for sample in samples]
        verdicts = verify_all(self.verifier, [(candidate, action) for action in actions])
        return [
            Rollout(
                candidate.id,
                sample=index,
                ids=sample.ids,
                logprob=sum(sample.logprobs),
                finish=str(sample.finish),
                verdict=verdict,
            )
            for index, (sample, verdict) in enumerate(zip(samples, verdicts, strict=True), first)
        ]


def by_candidate(rollouts: Sequence[Rollout], ids: Sequence[str]) -> list[list[Rollout]]:
    """Rollouts grouped by candidate, in the order of `ids`; what belongs to none of them is left out."""
    groups: dict[str, list[Rollout]] = {identity: [] for identity in ids}
    for rollout in rollouts:
        groups.get(rollout.candidate_id, []).append(rollout)
    return [groups[identity] for identity in ids]


def distinct_successes(rollouts: Sequence[Rollout], threshold: float) -> tuple[tuple[int, ...], ...]:
    """Ids of each distinct success, the one that pi_0 is most likely to write first. Ties: the first sample."""
    successes = [rollout for rollout in rollouts if rollout.verdict.reward >= threshold]
    return tuple(dict.fromkeys(one.ids for one in sorted(successes, key=lambda rollout: -rollout.logprob)))


def write_rollouts(path: Path, rollouts: Sequence[Rollout]) -> None:
    """Write rollouts, one row each, in their order."""
    write_table(path, "rollouts", ROLLOUT_SCHEMA, [rollout.columns() for rollout in rollouts])


def read_rollouts(path: Path) -> list[Rollout]:
    """Read rollouts in their order. Raises DataError for a file that is none."""
    return [
        Rollout(
            str(row["candidate_id"]),
            sample=int(row["sample"]),
            ids=tuple(int(i) for i in row["ids"]),
            logprob=float(row["logprob"]),
            finish=str(row["finish"]),
            verdict=Verdict(float(row["reward"]), str(row["reason"]), json.loads(row["components"])),
        )
        for row in records(read_table(path, "rollouts"))
    ]


def _write_block(path: Path, rollouts: Sequence[Rollout], tokens: TokenCount) -> None:
    # The cost travels in a file beside the samples, which is written first: a block that exists is whole.
    cost = {"prefilled": tokens.prefilled, "generated": tokens.generated, "turns": tokens.turns}
    write_json(path.with_suffix(".json"), cost)
    write_rollouts(path, rollouts)


def _read_block(path: Path) -> tuple[list[Rollout], TokenCount] | None:
    """A stored block; None where there is none, or where a disk has spoilt it."""
    if not path.exists():
        return None
    try:
        cost = path.with_suffix(".json")
        rollouts, tokens = read_rollouts(path), TokenCount(**read_json(cost))
        cost.touch()  # by its time it is known when a block was last read
        return rollouts, tokens
    except (DataError, OSError, ValueError, KeyError, TypeError) as error:
        log.warning("profile block %s is damaged (%s); sampling it again", path.stem, error)
        return None


@cache
def reading_code() -> str:
    """Digest of `READING_CODE`."""
    return code_digest(*READING_CODE)


def _ascii_json(value: Json) -> str:
    # ASCII: what a policy wrote may hold half a surrogate pair, which UTF-8 cannot carry.
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
