"""`pivotrl bench`: ours beside public tools. Progress goes to standard error, records to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pivotrl_core.bench.records import Comparison

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Model = Annotated[str, typer.Option(help="'bundled', or a model folder")]
Dtype = Annotated[str, typer.Option(help="float32 or bfloat16, of all sides")]
Threads = Annotated[int, typer.Option(min=1, help="of every side")]
Rounds = Annotated[int, typer.Option(min=1, help="measured runs of each side, after a warm-up")]
Samples = Annotated[int, typer.Option(min=2, help="K, samples of each candidate")]
Group = Annotated[int, typer.Option(min=2, help="G, actions of the group")]
MaxTokens = Annotated[int, typer.Option(min=1, help="tokens of a sample")]
AsJson = Annotated[bool, typer.Option("--json", help="one line of JSON a comparison")]


@bench.command()
def train(
    curve: Annotated[bool, typer.Option("--curve", help="over groups and states, one run a point")] = False,
    group: Group = 16,
    state: Annotated[int, typer.Option(min=1, help="tokens of the state")] = 1024,
    action: Annotated[int, typer.Option(min=1, help="tokens of each action")] = 64,
    groups: Annotated[str, typer.Option(help="of the curve, with commas")] = "4,8,16,32",
    states: Annotated[str, typer.Option(help="of the curve, with commas")] = "256,1024,4096",
    model: Model = "bundled", dtype: Dtype = "float32", threads: Threads = 2, rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """One GRPO step, beside TRL and a padded form. Example: pivotrl bench train --dtype bfloat16."""
    sizes = [_sizes(groups, "--groups"), _sizes(states, "--states")]
    given = _given(model, dtype, threads, 1)
    from pivotrl_core.bench.training import TrainBench

    plan = TrainBench(**given, group=group, state=state, action=action, batch_group=min(8, group), rounds=rounds)
    _tell(plan.curve(*sizes) if curve else plan.step(), as_json)


@bench.command()
def profile(
    trajectories: Annotated[Path | None, typer.Option(help="your own conversations")] = None,
    count: Annotated[int, typer.Option(min=1, help="conversations")] = 1,
    tokens: Annotated[int, typer.Option(min=1, help="of each that is joined from the help desk's")] = 2000,
    turns: Annotated[int, typer.Option(min=0, help="of each conversation, spread evenly; 0: all")] = 12,
    candidates: Annotated[int, typer.Option(min=1, help="of the embedded domain's own profile")] = 24,
    samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled", dtype: Dtype = "float32",
    threads: Threads = 2, rounds: Rounds = 5, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Sampling at the turns of conversations, beside generate. Example: pivotrl bench profile --dtype bfloat16."""
    given = _given(model, dtype, threads, 1)
    from pivotrl_core.bench.profiling import ProfileBench

    plan = ProfileBench(
        **given, samples=samples, max_tokens=max_tokens, count=count, tokens=tokens, turns=turns, source=trajectories,
        candidates=candidates, rounds=rounds,
    )  # fmt: skip
    _tell(plan.run(), as_json)


@bench.command()
def curtail(
    simulated: Annotated[int, typer.Option(min=1, help="simulated candidates")] = 10_000,
    rollouts: Annotated[Path | None, typer.Option(help="of a full profile; the checkout's where not given")] = None,
    candidates: Annotated[int, typer.Option(min=0, help="on the model, timed; 0: none")] = 24,
    samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled", dtype: Dtype = "float32",
    threads: Threads = 2, rounds: Rounds = 3, as_json: AsJson = False,
) -> None:  # fmt: skip
    """What curtailment saves of the full K. Example: pivotrl bench curtail --simulated 1000 --candidates 0."""
    from tasks.settings import find_checkout

    given = _given(model, dtype, threads, 1)
    from pivotrl_core.bench.curtailing import CurtailBench

    plan = CurtailBench(
        **given, samples=samples, max_tokens=max_tokens, simulated=simulated, candidates=candidates, rounds=rounds,
        rollouts=rollouts or find_checkout() / "data/profiles/base/rollouts.parquet",
    )  # fmt: skip
    _tell(plan.run(), as_json)


@bench.command()
def iterate(
    candidates: Annotated[int, typer.Option(min=2, help="that are profiled")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="of training")] = 3,
    prompts: Annotated[int, typer.Option(min=1, help="pivots a step")] = 4,
    micro_batch: Annotated[int, typer.Option(min=1, help="of TRL")] = 2,
    group: Group = 8, samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled",
    dtype: Dtype = "float32", threads: Threads = 2, rounds: Rounds = 3, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Profile, select and train, beside public tools. Example: pivotrl bench iterate --steps 3."""
    if group % micro_batch:
        raise typer.BadParameter(f"{micro_batch} does not divide a group of {group}", param_hint="--micro-batch")
    given = _given(model, dtype, threads, threads)
    from pivotrl_core.bench.iterating import IterateBench
    from pivotrl_core.bench.iterations import IterationPlan

    plan = IterationPlan(samples, group, prompts, steps, max_tokens)
    iteration = IterateBench(**given, plan=plan, candidates=candidates, micro_batch=micro_batch, rounds=rounds)
    _tell(iteration.run(), as_json)


def _sizes(text: str, option: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: expected numbers with commas between them", param_hint=option) from error


def _given(model: str, dtype: str, threads: int, lanes: int) -> dict[str, Any]:
    """What every benchmark is given: the model's folder, how it computes, and how processes are run here."""
    from tasks.memory import prepare_memory
    from tasks.settings import apply_environment, find_checkout, find_state

    state = find_state(find_checkout())
    apply_environment(state)
    prepare_memory()  # sides inherit the variable: torch may read it before they come to set it
    from pivotrl_core.bench.measuring import Machine
    from pivotrl_core.config.stages import ComputeConfig
    from pivotrl_core.engines.bundled import bundled_model
    from pivotrl_core.errors import ConfigError

    if dtype not in ("float32", "bfloat16"):
        raise typer.BadParameter(f"{dtype!r}: choose float32 or bfloat16", param_hint="--dtype")
    folder = bundled_model(state.models) if model == "bundled" else Path(model).expanduser().resolve()
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder}: no Hugging Face model here (config.json is missing); name a model folder")
    compute = ComputeConfig.model_validate({"threads": threads, "lanes": lanes, "dtype": dtype})
    name = model if model == "bundled" else folder.name
    return {"folder": folder, "compute": compute, "machine": Machine(prepare_memory), "say": _say, "model": name}


def _tell(comparisons: Iterable[Comparison], as_json: bool) -> None:
    for one in comparisons:
        print(one.line() if as_json else f"{one.text()}\n", flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
