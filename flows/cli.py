"""The command line `pivotrl`: thin commands over flows and tasks.

Nothing heavy is imported before a command needs it, so that help comes at once. Exit codes: 0 done, 1 a reproduction
differs or some rows have no verdict, 2 wrong usage, 65 wrong data, 75 worth a retry, 78 wrong configuration, 141
nobody reads the output (as a shell tells SIGPIPE), 70 anything else.
"""

from __future__ import annotations

import os
import select
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from flows.bench import bench
from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import EXIT_SOFTWARE, PivotRLError
from pivotrl_core.processes import leave

Number = TypeVar("Number", int, float)
_EXIT_UNREAD = 141  # 128 + SIGPIPE

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Turn recorded agent trajectories into a better agent model, and measure it.",
    epilog="Exit codes: 0 done, 1 reproduction differs or rows without a verdict, 2 usage, 65 data, 70 software, "
    "75 try again, 78 configuration, 141 output nobody reads.",
)  # fmt: skip
app.add_typer(bench, name="bench", help="Measure ours beside public tools. Example: pivotrl bench train --json.")

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a parameter; may be repeated")
]
Params = Annotated[Path | None, typer.Option(help="parameter file to use instead of params.yaml")]
Arms = Annotated[str, typer.Option(help="arms to keep, with commas; base and what they start from come along")]
Quick = Annotated[
    bool, typer.Option("--quick", envvar="QUICK", help="sizes for a walk-through, too small to conclude from")
]
Trajectories = Annotated[Path | None, typer.Option(help="your own file, folder or pattern (in quotes) of trajectories")]
Model = Annotated[str, typer.Option(help="'bundled', a model folder, or owner/name@revision")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command()
def inspect(
    files: list[Path],
    tokens: Annotated[bool, typer.Option(help="also count tokens, with the model's tokenizer")] = True,
    model: Model = "", params: Params = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show what files, folders or patterns hold and what would be dropped. Example: pivotrl inspect my.jsonl runs/."""
    from flows.inspecting import inspect_text
    from flows.launch import make_request

    _print(inspect_text(files, as_json, tokens, make_request(model=model, params=params)))


@app.command()
def run(
    trajectories: Trajectories = None, model: Model = "", arms: Arms = "", settings: Set = None, params: Params = None,
    quick: Quick = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run the main job. Example: pivotrl run --trajectories my.jsonl --arms pivotrl --set profile.samples=16."""
    from flows.launch import launch, make_request

    request = make_request(
        trajectories=trajectories, model=model, arms=arms, settings=settings, quick=quick, params=params
    )
    _print(launch("run", request, as_json))


@app.command()
def sweep(
    lambdas: Annotated[str, typer.Option(help="values of lambda_diff, with commas")] = "0.2,0.4,0.6,0.8,1.0",
    seeds: Annotated[str, typer.Option(help="seeds, with commas (default: those of params.yaml)")] = "",
    controls: Annotated[bool, typer.Option(help="also the control arms and baselines")] = True,
    trajectories: Trajectories = None, model: Model = "", arms: Arms = "", settings: Set = None, params: Params = None,
    quick: Quick = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run many arms and seeds. Example: pivotrl sweep --lambdas 0.4,0.6 --seeds 0,1,2."""
    from flows.launch import launch, make_request
    from flows.sweep import sweep_request

    base = make_request(
        trajectories=trajectories, model=model, arms=arms, settings=settings, quick=quick, params=params
    )
    request = sweep_request(base, _numbers(float, lambdas, "--lambdas"), _numbers(int, seeds, "--seeds"), controls)
    _print(launch("sweep", request, as_json))


@app.command()
def nightly(settings: Set = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Run the nightly job now: pull and profile what is new, train, evaluate. Example: pivotrl nightly."""
    from flows.launch import launch, make_request

    _print(launch("nightly", make_request(settings=settings, quick=quick), as_json))


@app.command()
def stage(name: str, key: Annotated[str, typer.Option(help="entry of graph.yaml, such as pivotrl-0")] = "") -> None:
    """Run one stage as DVC does. Example: pivotrl stage train --key pivotrl-0."""
    from flows.stage_program import run_stage_program
    from tasks.settings import find_checkout

    run_stage_program(find_checkout(), name, key)


@app.command()
def pull(prune: Annotated[bool, typer.Option(help="drop files that the source no longer has")] = False) -> None:
    """Bring data/pulled up to date with the source. Example: pivotrl pull --prune."""
    from flows.launch import pull_here

    _print(pull_here(prune))


@app.command()
def graph() -> None:
    """Write graph.yaml from params.yaml. Example: pivotrl graph."""
    from pivotrl_core.config.graph import write_graph
    from pivotrl_core.config.loading import load_config
    from tasks.settings import find_checkout

    root = find_checkout()
    changed = write_graph(load_config(root / "params.yaml"), root / "graph.yaml")
    _print("graph.yaml: written" if changed else "graph.yaml: up to date")


@app.command()
def compare(a: str, b: str) -> None:
    """Compare two arms, two runs (run id, commit), or an arm and a run's. Example: pivotrl compare sft pivotrl."""
    from flows.launch import compare_names

    _print(compare_names(a, b))


@app.command()
def export(pool: str, out: Path, as_json: AsJson = False) -> None:
    """Write a pool, or RUN:ARM, as NeMo Gym pivot rows. Example: pivotrl export data/pools/pivotrl pivots.jsonl."""
    from flows.exporting import export_text

    _print(export_text(pool, out, as_json))


@app.command()
def verify(
    rows: Path,
    domain: Annotated[str, typer.Option(help="tool, terminal, swe, search or code (default: by what a row has)")] = "",
    compat: Annotated[str, typer.Option(help="'nemo-gym': rewards and categories of NeMo Gym's own verifiers")] = "",
    out: Annotated[Path | None, typer.Option(help="file to write to (default: standard output)")] = None,
) -> None:
    """Judge pivot rows that carry a response, a line each. Example: pivotrl verify rows.jsonl --compat nemo-gym."""
    from flows.verifying import verify_file

    without = verify_file(rows, domain, compat, out)
    if without:
        raise typer.Exit(1)


@app.command()
def serve_verifier(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0: a free one")] = 8901,
    processes: Annotated[int, typer.Option(min=0, help="that grade; 0: one for each processor")] = 0,
    domain: Annotated[str, typer.Option(help="of all rows, as of verify (default: by what a row has)")] = "",
    compat: Annotated[str, typer.Option(help="'nemo-gym': rewards and categories of NeMo Gym's own verifiers")] = "",
    requests: Annotated[int, typer.Option(min=1, help="that may be there at once; more are told to come again")] = 512,
    body_mib: Annotated[int, typer.Option(min=1, help="MiB that a request may have")] = 16,
    workspaces: Annotated[Path | None, typer.Option(help="folder that the workspaces of rows lie in")] = None,
    settings: Set = None, params: Params = None,
) -> None:  # fmt: skip
    """Give verdicts over HTTP. Example: pivotrl serve-verifier --port 8901 --compat nemo-gym."""
    from flows.grading import Address, Rows, serve_verifier
    from flows.launch import make_request
    from pivotrl_core.service.queue_limits import QueueLimits

    request = make_request(settings=settings, params=params)
    limits = QueueLimits(requests=requests, body_bytes=body_mib << 20)
    serve_verifier(Address(host, port), processes, Rows(domain, compat, workspaces), request, limits)


@app.command()
def reverify(
    run: str,
    rule: Annotated[str, typer.Option(help="functional, exact or nemo-gym (default: the run's own)")] = "",
    out: Annotated[Path, typer.Option(help="receives a folder for each profile")] = Path("reverified"),
    settings: Set = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Score stored rollouts again, sampling nothing. Example: pivotrl reverify . --set verifier.text_threshold=0.9."""
    from flows.reverifying import reverify_text
    from tasks.settings import find_checkout

    _print(reverify_text(find_checkout(), run, rule, settings or [], out, as_json))


@app.command()
def reproduce(
    name: str, remote: Annotated[str, typer.Option(help="folder or URL of the DVC remote with the data")] = ""
) -> None:
    """Execute a recorded run again and compare. Example: pivotrl reproduce 20260314-020000-9f3a."""
    from flows.launch import launch_reproduction

    _print(launch_reproduction(name, remote))


@app.command()
def serve(
    cron: Annotated[str, typer.Option(help="five cron fields")] = "0 2 * * *",
    timezone: Annotated[str, typer.Option(help="IANA name")] = "UTC",
    settings: Set = None, quick: Quick = False,
) -> None:  # fmt: skip
    """Serve the nightly deployment. Example: pivotrl serve --cron "0 2 * * *" --timezone Europe/Berlin."""
    from flows.launch import launch_serving, make_request

    launch_serving(cron, timezone, make_request(settings=settings, quick=quick))


@app.command()
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port on the loopback interface")] = 5000,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="first record runs again that MLflow has lost")] = False,
) -> None:
    """Open MLflow on the finished runs. Example: pivotrl ui --port 5001."""
    from flows.launch import open_ui

    open_ui(port, rebuild)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what of this machine and checkout is ready, and what to do about the rest. Example: pivotrl doctor."""
    from flows.doctor import examination_text, examine

    checks = examine()
    import json

    _print(json.dumps([check.to_json() for check in checks], indent=2) if as_json else examination_text(checks))
    if any(check.needed and not check.good for check in checks):
        raise typer.Exit(78)


@app.command()
def gc() -> None:
    """Remove what neither the checkout nor a record names, checkpoints of cut-off stages too. Example: pivotrl gc."""
    from flows.launch import collect

    _print(collect())


def _numbers(kind: type[Number], text: str, option: str) -> list[Number]:
    """Numbers with commas between them."""
    try:
        return [kind(one) for one in text.split(",") if one.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: expected numbers with commas between them", param_hint=option) from error


def _print(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; an error of ours, or of the system, is one message and its exit code."""
    try:
        app(arguments, standalone_mode=True)
    except (SystemExit, BrokenPipeError) as end:
        _end(end)
    except PivotRLError as error:
        _fail(f"error: {error}", error.exit_code)
    except OSError as error:  # a full disk, a folder that may not be written: what it says is enough
        _fail(f"error: {error}")
    except Exception:  # noqa: BLE001 - Python's own exit code, 1, would say that a reproduction differs
        _fail(traceback.format_exc())


def _fail(text: str, code: int = EXIT_SOFTWARE) -> NoReturn:
    """End after an error with its message, where somebody reads it."""
    with suppress(BrokenPipeError):
        print(without_credentials(text), file=sys.stderr)
    leave(code)


def _end(end: BaseException) -> NoReturn:
    """End with the code that a command ended with; quietly with another where nobody reads what it wrote.

    Typer's own code for a pipe without a reader is 1, and the interpreter's 120, with words of its own.
    """
    broken = end if isinstance(end, BrokenPipeError) else end.__context__
    try:
        print(end="", flush=True)
    except BrokenPipeError as error:
        broken = error
    if not isinstance(broken, BrokenPipeError):
        raise end
    unread = _unread_outputs()
    if not unread:  # the pipe was another's
        _fail(f"error: {broken}")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in unread:  # or the interpreter would try once more to write what is left
        os.dup2(nowhere, output)
    leave(_EXIT_UNREAD)


def _unread_outputs() -> list[int]:
    """Those of our standard output and errors that are pipes nobody reads."""
    poll = select.poll()
    for output in (1, 2):
        poll.register(output, 0)
    return [output for output, found in poll.poll(0) if found & (select.POLLERR | select.POLLHUP)]


if __name__ == "__main__":
    main()
