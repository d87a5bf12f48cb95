"""The three parts of an evaluation: the domain, the benchmarks, drift. Per-item results are kept.

Whatever the policy writes is measured in portions (see portions.py); drift takes seconds and begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import pyarrow as pa

from pivotrl_core.config.folders import CANDIDATES
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.plain_engine import embedded_engine
from pivotrl_core.engines.protocol import ChatEngine, Engine, Request, SamplingConfig
from pivotrl_core.environments.episodes import Episode, EpisodePlayer
from pivotrl_core.environments.protocol import Task
from pivotrl_core.environments.registry import get_domain
from pivotrl_core.errors import ConfigError
from pivotrl_core.evaluation.benchmarks.registry import get_benchmark
from pivotrl_core.evaluation.drift import (
    action_order,
    continuation,
    instruction_sequences,
    neutral_sequences,
    score_texts,
)
from pivotrl_core.evaluation.protocol import Benchmark, Item
from pivotrl_core.evaluation.scoring import score_answers, skip_reason
from pivotrl_core.lanes import even_batches
from pivotrl_core.pivots.profile_record import read_candidates
from pivotrl_core.pivots.tables import write_table
from pivotrl_core.seeding import derive_seed, generator
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.portions import Portion, Rows
from pivotrl_core.stages.subject import Subject
from pivotrl_core.stages.verification import configured_verifier
from pivotrl_core.trajectories.thinking import split_thinking
from pivotrl_core.types import Candidate, Split
from pivotrl_core.verifiers.batches import verify_all

Found = tuple[dict[str, float | None], dict[str, Any]]
TEMPERATURES = {"greedy": 0.0, "t1": 1.0}  # by the name that metrics have
TASKS_AT_ONCE = 100  # of a portion: what a kill can cost; a portion's last episodes are played with empty seats
TASK_SEED = 7  # of evaluation tasks: the same for all arms and seeds, so that they can be compared in pairs

EPISODE_SCHEMA = pa.schema([
    ("task_id", pa.string()), ("family", pa.string()), ("temperature", pa.float64()), ("success", pa.float64()),
    ("turns", pa.int64()), ("tool_errors", pa.int64()), ("malformed", pa.int64()), ("ending", pa.string()),
])  # fmt: skip
TURN_SCHEMA = pa.schema([
    ("candidate_id", pa.string()), ("temperature", pa.float64()), ("reward", pa.float64()), ("accepted", pa.bool_()),
    ("reason", pa.string()),
])  # fmt: skip
ITEM_SCHEMA = pa.schema([
    ("benchmark", pa.string()), ("item_id", pa.string()), ("score", pa.float64()), ("parsed", pa.bool_()),
    ("answer", pa.string()), ("extracted", pa.string()),
])  # fmt: skip


def measure_domain(context: StageContext, subject: Subject, out: Path) -> Found:
    """Whole episodes where there is an environment; functional accuracy on held-out turns where there is none."""
    environment = context.config.source.environment
    if environment:
        return _play(context, subject, environment, out)
    return _score_turns(context, subject, out)


def _play(context: StageContext, subject: Subject, name: str, out: Path) -> Found:
    settings = subject.config.evaluate
    domain = get_domain(name)
    tasks = domain.tasks(Split(settings.split), settings.episodes, TASK_SEED)
    if not tasks:
        raise ConfigError(f"evaluate.split: the environment {name!r} has no tasks in the split '{settings.split}'")
    player = EpisodePlayer(subject.engine, subject.renderer, domain, settings.max_tokens, settings.max_turns)
    batches = even_batches(len(tasks), TASKS_AT_ONCE, subject.lanes.parts)
    portions = [
        Portion(
            f"episodes-{batch.start}",
            partial(_episodes, player, tasks[batch.start : batch.stop], list(TEMPERATURES.values()), subject.seed),
        )
        for batch in batches
    ]
    rows = [row for played in subject.portions.rows(portions) for row in played]
    metrics: dict[str, float | None] = {}
    for how, temperature in TEMPERATURES.items():
        own = [row for row in rows if row["temperature"] == temperature]
        for metric in ("success", "turns", "malformed", "tool_errors"):
            metrics[f"eval/{name}/{metric}_{how}"] = sum(row[metric] for row in own) / len(own)
        success = metrics[f"eval/{name}/success_{how}"]
        print(f"evaluate: {len(own)} episodes, {how}: success {success:.3f}", flush=True)
    write_table(out / "episodes.parquet", "episodes", EPISODE_SCHEMA, rows)
    return metrics, {"domain": name, "split": settings.split, "notes": _known_tasks(context, tasks)}


def _known_tasks(context: StageContext, tasks: Sequence[Task]) -> list[str]:
    """A note where trajectories to train on were recorded at tasks that policies are evaluated on."""
    candidates = read_candidates(context.path(f"{CANDIDATES}/candidates.parquet"))
    recorded = {str(one.metadata.get("task_id", "")) for one in candidates if one.split is Split.TRAIN}
    known = sum(task.id in recorded for task in tasks)
    if not known:
        return []
    return [
        f"{known} of the evaluation's {len(tasks)} tasks are those of training trajectories: they are not held out."
    ]


def _episodes(
    player: EpisodePlayer, tasks: Sequence[Task], temperatures: Sequence[float], seed: int, engine: ChatEngine
) -> Rows:
    played = replace(player, engine=engine).play(tasks, temperatures, "evaluate", seed)
    return [_episode_columns(episode) for episode in played]


def _episode_columns(episode: Episode) -> dict[str, Any]:
    components = episode.score.components
    return {
        "task_id": episode.task.id, "family": episode.task.family, "temperature": episode.temperature,
        "success": episode.score.success, "turns": len(episode.samples), "malformed": episode.malformed,
        "tool_errors": int(components.get("tool_errors", 0)), "ending": str(components.get("ending", "")),
    }  # fmt: skip


def _score_turns(context: StageContext, subject: Subject, out: Path) -> Found:
    settings = subject.config.evaluate
    turns = _held_out(context, Split(settings.split), settings.turns)
    metrics: dict[str, float | None] = {}
    rows: Rows = []
    portions = [
        Portion(f"turns-{name}", partial(_turns, subject, turns, name, temperature))
        for name, temperature in TEMPERATURES.items()
    ]
    for name, own in zip(TEMPERATURES, subject.portions.rows(portions), strict=True):
        metrics[f"eval/turns/accuracy_{name}"] = sum(row["accepted"] for row in own) / len(own) if own else None
        rows += own
    write_table(out / "turns.parquet", "turns", TURN_SCHEMA, rows)
    return metrics, {"domain": "turns", "split": settings.split}


def _turns(subject: Subject, turns: Sequence[Candidate], name: str, temperature: float, engine: ChatEngine) -> Rows:
    verifier = configured_verifier(subject.config, subject.places, "functional")
    states = [subject.renderer.state_ids(turn.state, turn.tools) for turn in turns]
    requests = [
        Request(turn.id, state, (derive_seed(subject.seed, name, turn.id),))
        for turn, state in zip(turns, states, strict=True)
    ]
    samples = engine.sample(requests, SamplingConfig(temperature, subject.config.evaluate.max_tokens))
    actions = [subject.renderer.parse(one.ids, turn.tools) for turn, (one,) in zip(turns, samples, strict=True)]
    verdicts = verify_all(verifier, list(zip(turns, actions, strict=True)))
    success = subject.config.verifier.reward.success
    return [
        {"candidate_id": turn.id, "temperature": temperature, "reward": verdict.reward,
         "accepted": verdict.reward >= success, "reason": verdict.reason}
        for turn, verdict in zip(turns, verdicts, strict=True)
    ]  # fmt: skip


def _held_out(context: StageContext, split: Split, count: int) -> list[Candidate]:
    own = [one for one in read_candidates(context.path(f"{CANDIDATES}/candidates.parquet")) if one.split is split]
    chosen = generator("held-out", len(own)).permutation(len(own))[:count]
    return [own[int(index)] for index in sorted(chosen)]


def measure_benchmarks(context: StageContext, subject: Subject, out: Path) -> Found:
    """Every configured benchmark, greedy; one that cannot be scored here is skipped with its reason."""
    metrics: dict[str, float | None] = {}
    rows: Rows = []
    described: list[dict[str, Any]] = []
    scored: list[tuple[Benchmark, Sequence[Item]]] = []
    for benchmark in map(get_benchmark, context.config.evaluate.benchmarks):
        items = _some_items(benchmark, context.config.evaluate.items)
        skipped = skip_reason(benchmark)
        described.append({"name": benchmark.name, "n": len(items), "metric": benchmark.metric, "skipped": skipped})
        if skipped is not None:
            print(f"evaluate: {benchmark.name} skipped: {skipped}", flush=True)
            continue
        scored.append((benchmark, items))
    portions = [Portion(one.name, partial(_item_rows, subject, one, items)) for one, items in scored]
    for (benchmark, items), own in zip(scored, subject.portions.rows(portions), strict=True):
        mean = sum(row["score"] for row in own) / len(own)
        metrics[f"eval/{benchmark.name}/score"] = mean
        metrics[f"eval/{benchmark.name}/parse_failure_rate"] = sum(not row["parsed"] for row in own) / len(own)
        print(f"evaluate: {benchmark.name}: {mean:.3f} (n = {len(items)})", flush=True)
        rows += own
    write_table(out / "items.parquet", "items", ITEM_SCHEMA, rows)
    return metrics, {"benchmarks": described}


def _some_items(benchmark: Benchmark, count: int) -> Sequence[Item]:
    """At most `count` items, in their order; the same for every arm. Those at the end are of other languages, say."""
    items = benchmark.items()
    chosen = generator("items", benchmark.name).permutation(len(items))[:count]
    return [items[int(index)] for index in sorted(chosen)]


def _item_rows(subject: Subject, benchmark: Benchmark, items: Sequence[Item], engine: ChatEngine) -> Rows:
    answers = _answers(subject.renderer, engine, benchmark, items, subject.config.evaluate.thinking_tokens)
    return [
        {"benchmark": benchmark.name, "item_id": item.id, "score": score.score, "parsed": score.parsed,
         "answer": answer, "extracted": score.extracted}
        for item, answer, score in zip(items, answers, score_answers(benchmark, items, answers), strict=True)
    ]  # fmt: skip


def _answers(
    renderer: ChatRenderer, engine: Engine, benchmark: Benchmark, items: Sequence[Item], thinking_tokens: int = 0
) -> list[str]:
    requests = [Request(item.id, renderer.state_ids(item.messages, ()), (0,)) for item in items]
    samples = engine.sample(requests, SamplingConfig(0.0, benchmark.max_tokens + thinking_tokens))
    texts = (renderer.written(sample.ids) for (sample,) in samples)
    # Half a surrogate pair cannot be stored; a model can write one token of it.
    return [split_thinking(text)[1].encode("utf-8", "replace").decode("utf-8") for text in texts]


def measure_drift(context: StageContext, subject: Subject, out: Path) -> Found:
    """KL from the base policy on instructions, neutral prose and held-out turns; the order of alternatives there."""
    del out
    settings = context.config.evaluate
    benchmarks = [get_benchmark(name) for name in settings.benchmarks]
    score = partial(
        score_texts, subject.policy_model, subject.base_model, row_tokens=context.config.compute.row_tokens,
        lanes=subject.lanes, layout=subject.layout,
    )  # fmt: skip
    sequences, groups = _alternatives(context, subject)
    subject.compute_in_fp32()
    neutral = score(neutral_sequences(subject.renderer, settings.drift_texts))
    asked = instruction_sequences(subject.renderer, benchmarks, settings.drift_texts)
    metrics: dict[str, float | None] = {"eval/drift/kl_neutral": neutral.kl}
    if asked:
        instructions = score(asked)
        change = _mean_change(instructions.logprobs_N, instructions.base_logprobs_N, asked)
        metrics |= {"eval/drift/kl_instructions": instructions.kl, "eval/drift/reference_logprob_change": change}
    if sequences:
        turns = score(sequences)
        metrics |= {"eval/drift/kl_other_turns": turns.kl, **action_order(turns, groups)}
    return metrics, {"drift": {"states": len(groups), "pairs": sum(comb(count, 2) for count in groups)}}


def _alternatives(context: StageContext, subject: Subject) -> tuple[list[Any], list[int]]:
    """Distinct actions that the base policy sampled at held-out turns: never in any pool, whatever the arm.

    Each once, with their number at each turn; turns at which all samples agree are left out.
    """
    turns = _held_out(context, Split.VALIDATION, context.config.evaluate.drift_texts)
    requests = [
        Request(
            turn.id,
            subject.renderer.state_ids(turn.state, turn.tools),
            tuple(derive_seed("drift", turn.id, k) for k in range(4)),
        )
        for turn in turns
    ]
    with subject.base_model() as base:
        own = base is subject.embedded.model
        engine = subject.embedded if own else embedded_engine(base, [subject.renderer.eos_id], lanes=subject.lanes)
        samples = engine.sample(requests, SamplingConfig(1.0, context.config.evaluate.max_tokens))
    sequences: list[Any] = []
    groups: list[int] = []
    for request, drawn in zip(requests, samples, strict=True):
        distinct = list(dict.fromkeys(sample.ids for sample in drawn))
        if len(distinct) > 1:
            sequences += [continuation(request.prompt_ids, ids) for ids in distinct]
            groups.append(len(distinct))
    return sequences, groups


def _mean_change(new: Sequence[float], old: Sequence[float], sequences: Sequence[Any]) -> float:
    tokens = sum(len(sequence.places) for sequence in sequences)
    return (sum(new) - sum(old)) / max(tokens, 1)
