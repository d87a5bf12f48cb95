"""`pivotrl bench`: ours beside public tools, and what verdicts cost.

Progress goes to standard error, records to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotrl_core.config.folders import PROFILES

if TYPE_CHECKING:
    from pivotrl_core.bench.pairs import AcceptRates
    from pivotrl_core.bench.records import Comparison
    from pivotrl_core.bench.verdicts import VerdictCost

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Model = Annotated[str, typer.Option(help="'bundled', or a model folder")]
Shape = Annotated[
    str,
    typer.Option(
        help="random weights of a shape, in place of --model: qwen2.5-0.5b, qwen3-0.6b, qwen2.5-1.5b, qwen2.5-7b, tiny",
        callback=lambda name: _known_shape(name),
    ),
]
Device = Annotated[str, typer.Option(help="cpu or cuda, of all sides")]
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
    model: Model = "bundled", shape: Shape = "", device: Device = "cpu", dtype: Dtype = "float32",
    threads: Threads = 2, rounds: Rounds = 5, as_json: AsJson = False,
) -> None:  # fmt: skip
    """One GRPO step, beside TRL and a padded form. Example: pivotrl bench train --dtype bfloat16."""
    sizes = [_sizes(groups, "--groups"), _sizes(states, "--states")]
    given = _given(model, shape, device, dtype, threads)
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
    samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled", shape: Shape = "",
    device: Device = "cpu", dtype: Dtype = "float32", threads: Threads = 2, rounds: Rounds = 5, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Sampling at the turns of conversations, beside generate. Example: pivotrl bench profile --dtype bfloat16."""
    from tasks.settings import find_checkout

    given = _given(model, shape, device, dtype, threads)
    from pivotrl_core.bench.profiling import ProfileBench

    plan = ProfileBench(
        **given, samples=samples, max_tokens=max_tokens, count=count, tokens=tokens, turns=turns, source=trajectories,
        candidates=candidates, checkout=find_checkout(), rounds=rounds,
    )  # fmt: skip
    _tell(plan.run(), as_json)


@bench.command()
def curtail(
    simulated: Annotated[int, typer.Option(min=1, help="simulated candidates")] = 10_000,
    rollouts: Annotated[Path | None, typer.Option(help="of a full profile; the checkout's where not given")] = None,
    candidates: Annotated[int, typer.Option(min=0, help="on the model, timed; 0: none")] = 24,
    real: Annotated[int, typer.Option(min=0, help="of the checkout, by its base policy, timed; 0: none")] = 192,
    samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled", shape: Shape = "",
    device: Device = "cpu", dtype: Dtype = "float32", threads: Threads = 2, rounds: Rounds = 3, as_json: AsJson = False,
) -> None:  # fmt: skip
    """What curtailment saves of the full K. Example: pivotrl bench curtail --simulated 1000 --candidates 0."""
    from tasks.settings import find_checkout

    given = _given(model, shape, device, dtype, threads)
    from pivotrl_core.bench.curtailing import CurtailBench

    checkout = find_checkout()
    plan = CurtailBench(
        **given, samples=samples, max_tokens=max_tokens, simulated=simulated, candidates=candidates, rounds=rounds,
        rollouts=rollouts or checkout / PROFILES / "base/rollouts.parquet", by_chance=bool(shape),
        checkout=checkout, real=real,
    )  # fmt: skip
    _tell(plan.run(), as_json)


@bench.command()
def iterate(
    candidates: Annotated[int, typer.Option(min=2, help="that are profiled")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="of training")] = 3,
    prompts: Annotated[int, typer.Option(min=1, help="pivots a step")] = 4,
    micro_batch: Annotated[int, typer.Option(min=1, help="of TRL")] = 2,
    group: Group = 8, samples: Samples = 8, max_tokens: MaxTokens = 40, model: Model = "bundled", shape: Shape = "",
    device: Device = "cpu", dtype: Dtype = "float32", threads: Threads = 2, rounds: Rounds = 3, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Profile, select and train, beside public tools. Example: pivotrl bench iterate --steps 3."""
    if group % micro_batch:
        raise typer.BadParameter(f"{micro_batch} does not divide a group of {group}", param_hint="--micro-batch")
    given = _given(model, shape, device, dtype, threads, lanes=threads)
    from pivotrl_core.bench.iterating import IterateBench
    from pivotrl_core.bench.iterations import IterationPlan

    plan = IterationPlan(samples, group, prompts, steps, max_tokens)
    iteration = IterateBench(**given, plan=plan, candidates=candidates, micro_batch=micro_batch, rounds=rounds)
    _tell(iteration.run(), as_json)


@bench.command()
def verify(
    rows: Annotated[
        list[Path] | None, typer.Option(help="file or folder of turns of your own; may be repeated")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="of each verifier, after a round that warms up")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """What verdicts cost, verifier by verifier. Example: pivotrl bench verify --rows pivots.jsonl --json."""
    import tempfile

    from pivotrl_core.bench.verdicts import verdict_costs

    with tempfile.TemporaryDirectory(prefix="bench-verify-") as scratch:
        _tell(verdict_costs(rows or [], seconds, Path(scratch), _say), as_json)


@bench.command()
def pairs(
    domain: Annotated[str, typer.Option(help="tool, terminal, software, search or code; all where none is given")] = "",
    part: Annotated[str, typer.Option(help="open, kept or all; kept is for the end of a piece of work")] = "open",
    sets: Annotated[Path | None, typer.Option(help="folder of the sets; the checkout's where not given")] = None,
    as_json: AsJson = False,
) -> None:
    """How often verdicts on labelled pairs are right. Example: pivotrl bench pairs --domain tool --part open."""
    from pivotrl_core.bench.pairs import ALL, Part, all_rates
    from pivotrl_core.verifiers.registry import GRADERS
    from tasks.settings import find_checkout

    if domain and domain not in GRADERS:
        raise typer.BadParameter(f"{domain!r}: choose one of {', '.join(GRADERS)}", param_hint="--domain")
    if part not in (*Part, ALL):
        raise typer.BadParameter(f"{part!r}: choose one of {', '.join((*Part, ALL))}", param_hint="--part")
    _tell(all_rates(sets or find_checkout() / "tests" / "labelled", domain, part, _say), as_json, gap="")


@bench.command()
def gpu(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="tiny, on a processor: shows that all of it runs")] = False,
    minutes: Annotated[float, typer.Option(min=0.1, help="of all parts together")] = 14.0,
    out: Annotated[Path, typer.Option(help="folder of records.jsonl and log.txt; carried on")] = Path("bench-gpu"),
    parts: Annotated[str, typer.Option(help="names with commas; all where none is given")] = "",
    threads: Threads = 2,
) -> None:  # fmt: skip
    """Train, profile, curtail, iterate on one GPU, models of random weights. Example: pivotrl bench gpu --dry-run."""
    _prepare()
    if not dry_run:
        _check_gpu()
    from pivotrl_core.bench.gpu import DRY, Ground, Sizes, plan, run_parts, setting_out
    from pivotrl_core.bench.journal import Journal
    from pivotrl_core.bench.measuring import Machine
    from pivotrl_core.config.stages import ComputeConfig
    from pivotrl_core.errors import MeasurementError
    from tasks.memory import prepare_memory
    from tasks.settings import find_checkout

    sizes = DRY if dry_run else Sizes()
    known = {part.name: part for part in plan(sizes)}
    if unknown := sorted(set(filter(None, parts.split(","))) - set(known)):
        raise typer.BadParameter(f"{', '.join(unknown)}: choose of {', '.join(known)}", param_hint="--parts")
    chosen = [part for name, part in known.items() if not parts or name in parts.split(",")]
    folders = {shape: _shape_folder(shape) for shape in dict.fromkeys((sizes.small, sizes.middle, sizes.large))}
    compute = ComputeConfig.model_validate({
        "device": "cpu" if dry_run else "cuda", "dtype": "bfloat16", "threads": threads, "lanes": 1,
        "row_tokens": sizes.row_tokens,
    })  # fmt: skip
    journal = Journal(out, _say, lambda line: print(line, flush=True))
    # A dry run starts no processes of its own: that takes longer than all else in it.
    machine = Machine(prepare_memory, isolated=not dry_run, device=compute.device)
    ground = Ground(folders, compute, machine, journal.say, None if dry_run else find_checkout())
    journal.record(setting_out(ground, chosen, 60 * minutes))
    failed = run_parts(chosen, ground, journal, 60 * minutes)
    if failed:
        raise MeasurementError(f"not all parts ended well: {', '.join(failed)}; {out / 'records.jsonl'} says why")


def _sizes(text: str, option: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: expected numbers with commas between them", param_hint=option) from error


def _given(model: str, shape: str, device: str, dtype: str, threads: int, lanes: int = 1) -> dict[str, Any]:
    """What every benchmark is given: the model's folder, how it computes, and how processes are run here."""
    _prepare()
    from pivotrl_core.bench.measuring import Machine
    from pivotrl_core.config.stages import ComputeConfig
    from pivotrl_core.errors import ConfigError
    from tasks.memory import prepare_memory

    if dtype not in ("float32", "bfloat16"):
        raise typer.BadParameter(f"{dtype!r}: choose float32 or bfloat16", param_hint="--dtype")
    if device not in ("cpu", "cuda"):
        raise typer.BadParameter(f"{device!r}: choose cpu or cuda", param_hint="--device")
    folder = _shape_folder(shape) if shape else _model_folder(model)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder}: no Hugging Face model here (config.json is missing); name a model folder")
    if device == "cuda":
        _check_gpu()
    compute = ComputeConfig.model_validate({"threads": threads, "lanes": lanes, "device": device, "dtype": dtype})
    machine = Machine(prepare_memory, device=compute.device)
    name = f"{shape} (random)" if shape else model if model == "bundled" else folder.name
    return {"folder": folder, "compute": compute, "machine": machine, "say": _say, "model": name}


def _known_shape(name: str) -> str:
    from pivotrl_core.bench.shapes import SHAPES

    if name and name not in SHAPES:
        raise typer.BadParameter(f"{name!r}: choose one of {', '.join(SHAPES)}")
    return name


def _prepare() -> None:
    """Let this process and its sides be what stages are."""
    from tasks.memory import prepare_memory
    from tasks.settings import apply_environment, find_checkout, find_state

    apply_environment(find_state(find_checkout()))
    prepare_memory()  # sides inherit the variable: torch may read it before they come to set it


def _model_folder(model: str) -> Path:
    """Of the bundled model, or of one's own."""
    from pivotrl_core.engines.bundled import bundled_model
    from tasks.settings import find_checkout, find_state

    if model == "bundled":
        return bundled_model(find_state(find_checkout()).models)
    return Path(model).expanduser().resolve()


def _shape_folder(shape: str) -> Path:
    """Of a shape, with the bundled model's tokenizer."""
    from pivotrl_core.bench.shapes import write_shape

    bundled = _model_folder("bundled")
    return write_shape(shape, bundled, bundled.parent / f"random-{shape}")


def _check_gpu() -> None:
    """Raise ConfigError without a GPU. All sides see one, the first where nothing else is said."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    import torch

    from pivotrl_core.errors import ConfigError

    if not torch.cuda.is_available():
        raise ConfigError(
            f"torch {torch.__version__} finds no GPU here; see docs/benchmarks.md for the set-up of a machine that has "
            "one, or measure on the processor: --device cpu, or bench gpu --dry-run"
        )


def _tell(comparisons: Iterable[Comparison | VerdictCost | AcceptRates], as_json: bool, gap: str = "\n") -> None:
    for one in comparisons:
        print(one.line() if as_json else f"{one.text()}{gap}", flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
