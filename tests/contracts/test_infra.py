"""What infra/ deploys: pinned, bound to the loopback address, without secrets, and pointing at flows that exist."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
COMPOSE: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
PREFECT: dict[str, Any] = yaml.safe_load((INFRA / "prefect.yaml").read_text())
KUBERNETES: list[dict[str, Any]] = list(yaml.safe_load_all((INFRA / "kubernetes" / "worker.yaml").read_text()))
VARIABLES = {
    "POSTGRES_PASSWORD": "p", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "PIVOTRL_USER": "1000:1000",
}  # fmt: skip
FROM_ENVIRONMENT = re.compile(r"\$\{[A-Z_]+:(\?[^}]+|-)\}")  # required, or empty where it is not set
SERVICES = sorted(COMPOSE["services"])


def service(name: str) -> dict[str, Any]:
    return COMPOSE["services"][name]


def environment(name: str) -> dict[str, str]:
    return dict(service(name).get("environment", {}))


def is_pinned(image: str) -> bool:
    """A tag that starts with a full version, or a digest."""
    return bool(re.search(r":v?\d+\.\d+(\.\d+)?([-.][\w.]+)*$", image) or "@sha256:" in image)


def compose_command() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            asked = subprocess.run([*command, "version"], check=False, capture_output=True)
            if asked.returncode == 0:
                return command
    return None


def render(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = compose_command()
    if command is None:
        pytest.skip("docker compose is not installed; the structural checks of this file stand in for it")
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    arguments = [*command, "-f", str(INFRA / "compose.yaml"), "config", "--format", "json"]
    return subprocess.run(arguments, env={**clean, **env}, check=False, capture_output=True, text=True)


def test_compose_accepts_the_file():
    done = render(VARIABLES)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["services"]) == SERVICES


@pytest.mark.parametrize("missing", sorted(VARIABLES))
def test_compose_refuses_to_start_without_a_secret(missing):
    done = render({name: value for name, value in VARIABLES.items() if name != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_the_services_are_the_ones_that_the_docs_promise():
    assert SERVICES == ["mlflow", "postgres", "prefect", "s3", "worker"]
    top = {key for key in COMPOSE if not key.startswith("x-")}
    assert top == {"name", "services", "volumes"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_uses_known_keys_and_refers_to_what_exists(name):
    known = {"image", "build", "command", "environment", "ports", "volumes", "depends_on", "healthcheck", "restart",
             "working_dir", "hostname", "user"}  # fmt: skip
    assert set(service(name)) <= known
    for other, condition in service(name).get("depends_on", {}).items():
        assert condition == {"condition": "service_healthy"}
        assert "healthcheck" in service(other)
    for volume in service(name).get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (INFRA / source).exists()
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_with_bounds(name):
    check = service(name)["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries"} <= set(check)


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned(name):
    assert is_pinned(service(name)["image"])


@pytest.mark.parametrize("image", ["postgres", "postgres:latest", "postgres:15", "a/b:main"])
def test_a_loose_tag_would_be_noticed(image):
    assert not is_pinned(image)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_the_loopback_address_alone(name):
    for port in service(name).get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_no_file_of_infra_holds_a_secret():
    secret_name = re.compile(r"(PASSWORD|SECRET|ACCESS_KEY|TOKEN|API_KEY)", re.IGNORECASE)
    for name in SERVICES:
        for variable, value in environment(name).items():
            if secret_name.search(variable):
                assert FROM_ENVIRONMENT.fullmatch(str(value)), f"{name}: {variable} must come from the environment"
    for path in (p for p in INFRA.rglob("*") if p.is_file()):
        text = path.read_text()
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@$]+@", text), path


@pytest.mark.parametrize("name", ["mlflow", "prefect", "worker"])
def test_telemetry_is_off(name):
    values = environment(name)
    assert values["DO_NOT_TRACK"] == "1"
    assert values["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert values["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_the_s3_server_keeps_its_telemetry_and_admin_pages_off():
    assert {"-master.telemetry=false", "-admin.ui=false", "-webdav=false"} <= set(service("s3")["command"])


def test_images_are_built_from_the_dependency_lock_alone():
    lines = (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["*", "!requirements"]
    copied = re.findall(r"^COPY (\S+)", (INFRA / "Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["requirements"]
    assert (ROOT / "requirements" / "model.lock").exists()


def test_versions_agree_with_the_dependency_lock():
    lock = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements" / "core.lock").read_text(), re.MULTILINE))
    dockerfile = (INFRA / "Dockerfile").read_text()
    assert f"mlflow=={lock['mlflow']}" in dockerfile
    assert f"boto3=={lock['boto3']}" in dockerfile
    assert service("mlflow")["image"].endswith(lock["mlflow"])
    assert f":{lock['prefect']}-" in service("prefect")["image"]
    assert PREFECT["prefect-version"] == lock["prefect"]


def test_the_worker_images_of_compose_and_kubernetes_are_one():
    deployment = next(document for document in KUBERNETES if document["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    images = {container["image"] for container in [*pod["containers"], *pod["initContainers"]]}
    assert images == {service("worker")["image"]}


@pytest.mark.parametrize(
    "line", [line for line in (INFRA / "Dockerfile").read_text().splitlines() if line[:4] == "FROM"]
)
def test_base_images_are_pinned(line):
    assert is_pinned(line.split()[1])


@pytest.mark.parametrize("deployment", PREFECT["deployments"], ids=lambda d: d["name"])
def test_a_deployment_points_at_a_flow_that_exists(deployment):
    file, function = deployment["entrypoint"].split(":")
    path = ROOT / file
    assert path.is_file(), f"{file}: infra/prefect.yaml deploys a flow from it"
    tree = ast.parse(path.read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("deployment", PREFECT["deployments"], ids=lambda d: d["name"])
def test_a_deployment_runs_one_at_a_time_in_the_pool_of_the_bootstrap(deployment):
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert f"work-pool create {deployment['work_pool']['name']} --type process" in (INFRA / "bootstrap.sh").read_text()


def test_only_the_nightly_flow_has_a_schedule_with_a_named_time_zone():
    scheduled = {d["name"]: d["schedules"] for d in PREFECT["deployments"] if "schedules" in d}
    assert list(scheduled) == ["nightly"]
    (schedule,) = scheduled["nightly"]
    assert len(schedule["cron"].split()) == 5
    assert ZoneInfo(schedule["timezone"])


def test_the_bootstrap_script_is_valid_and_asks_for_the_server():
    script = INFRA / "bootstrap.sh"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    without = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    done = subprocess.run([script], env=without, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "PREFECT_API_URL" in done.stderr


@pytest.mark.parametrize("document", KUBERNETES, ids=lambda d: d["kind"])
def test_a_kubernetes_object_has_the_required_keys(document):
    assert {"apiVersion", "kind", "metadata"} <= set(document)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", document["metadata"]["name"])
    assert document["kind"] != "Secret"


def test_the_kubernetes_worker_is_selected_mounted_and_given_its_secret_by_reference():
    objects = {document["kind"]: document for document in KUBERNETES}
    spec = objects["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in [*pod["containers"], *pod["initContainers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    claim = pod["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == objects["PersistentVolumeClaim"]["metadata"]["name"]
    references = [reference for source in pod["containers"][0]["envFrom"] for reference in source]
    assert references == ["configMapRef", "secretRef"]
    assert pod["containers"][0]["envFrom"][0]["configMapRef"]["name"] == objects["ConfigMap"]["metadata"]["name"]


def test_the_kubernetes_worker_s_checkout_is_brought_to_the_revision_that_is_named(tmp_path: Path):
    pod = next(one for one in KUBERNETES if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    (script,) = pod["initContainers"][0]["args"]
    origin, checkout = tmp_path / "origin", tmp_path / "checkout"

    def git(root: Path, *arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", *identity, "-C", str(root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(text: str) -> str:
        (origin / "graph.yaml").write_text(text)
        git(origin, "add", ".")
        git(origin, "commit", "-q", "-m", text)
        return git(origin, "rev-parse", "HEAD")

    def start_pod(revision: str) -> str:
        named = {"PIVOTRL_REPOSITORY": str(origin), "PIVOTRL_CHECKOUT": str(checkout), "PIVOTRL_REVISION": revision}
        subprocess.run(["sh", "-c", script], env={**os.environ, **named}, check=True, capture_output=True)
        return git(checkout, "rev-parse", "HEAD")

    git(tmp_path, "init", "-q", "-b", "main", str(origin))
    first = commit("one")
    assert start_pod("main") == first
    git(checkout, "update-ref", "refs/pivotrl/runs/run-1", "HEAD")
    (checkout / "graph.yaml").write_text("written anew by a run")
    (checkout / "dvc.lock").write_text("of the last run")
    second = commit("two")
    git(origin, "tag", "v2")
    commit("three")
    assert start_pod("v2") == second
    assert (checkout / "graph.yaml").read_text() == "two"
    assert start_pod(first[:10]) == first
    assert start_pod("main") == git(origin, "rev-parse", "HEAD")
    assert (checkout / "dvc.lock").exists()
    assert git(checkout, "rev-parse", "refs/pivotrl/runs/run-1") == first


def test_the_table_of_infra_names_every_file():
    named = re.findall(r"^\| `([^`]+)`", (INFRA / "README.md").read_text(), re.MULTILINE)
    files = {path.relative_to(INFRA).as_posix() for path in INFRA.rglob("*") if path.is_file()}
    assert files - {"README.md", "Dockerfile.dockerignore"} == set(named) & files


def test_the_checks_alone_set_up_what_they_need(tmp_path: Path):
    command = ["make", "--dry-run", "check", f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert planned.index("requirements/dev.lock") < planned.index("ruff check")


def test_a_worker_that_comes_again_has_the_same_host_name():
    """The project lock names its holder's host: under another one, a killed worker's lock would never be freed."""
    assert service("worker")["hostname"]
    pods = [one["spec"]["template"]["spec"] for one in KUBERNETES if one["kind"] == "Deployment"]
    assert [bool(pod["hostname"]) for pod in pods] == [True]


def test_a_file_with_secrets_is_never_part_of_a_record():
    """A run's record keeps untracked files that git does not ignore; compose reads its secrets from `.env`."""
    assert {".env", ".env.*"} <= set((ROOT / ".gitignore").read_text().split())
