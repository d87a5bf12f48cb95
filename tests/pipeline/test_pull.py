"""Pulling from a real S3 server; what is the same for every source is tried here."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError

from pivotrl_core.errors import ConfigError, DataError, TemporaryError
from pivotrl_core.files import file_digest
from tasks.pull import Manifest, PullSplit, S3Source, pull, read_manifest
from tasks.pull.etag import multipart_etag
from tasks.pull.origin import Listing, Origin, SourceObject, check_key, landing_path
from tasks.pull.retry import retry
from tasks.pull.s3_errors import translate

pytest_plugins = ["tests.s3_server"]

ROW = json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n"


@dataclass
class Counting:
    """A source that notes which keys were fetched from the one it wraps."""

    inner: Any
    fetched: list[str] = field(default_factory=list)
    origin: Any = None

    def open(self) -> Origin:
        self.origin = self.inner.open()
        return self

    @property
    def identity(self) -> Mapping[str, str]:
        return self.origin.identity

    def list_objects(self, previous: Manifest | None) -> Listing:
        return self.origin.list_objects(previous)

    def fetch(self, item: SourceObject, destination: Path) -> None:
        self.fetched.append(item.key)
        self.origin.fetch(item, destination)


def put(server, bucket: str, **objects: str) -> None:
    for name, body in objects.items():
        server.client().put_object(Bucket=bucket, Key=f"data/{name}.jsonl", Body=body.encode())


def texts(target: Path, manifest: Manifest) -> dict[str, str]:
    assert all(file.is_intact(target) for file in manifest.files)
    return {file.origin_key: (target / file.path).read_text() for file in manifest.files}


def listed_and_present(target: Path) -> tuple[list[str], list[str]]:
    manifest = read_manifest(target)
    present = [p.relative_to(target).as_posix() for split in PullSplit for p in (target / split).glob("*")]
    return sorted(file.path for file in manifest.files), sorted(present)


def test_first_pull_from_s3_holds_all_data_objects_and_says_where_they_came_from(s3_environment, bucket, tmp_path):
    put(s3_environment, bucket, a=ROW, **{"warmup/b": ROW * 2})
    s3_environment.client().put_object(Bucket=bucket, Key="data/README.md", Body=b"no data")
    s3_environment.client().put_object(Bucket=bucket, Key="data2/other.jsonl", Body=b"another prefix")
    s3_environment.client().put_object(Bucket=bucket, Key="data/workspaces/w.tar", Body=b"a tree")

    manifest = pull(S3Source(bucket, "data"), tmp_path / "pulled")

    expected = {"a.jsonl": ROW, "warmup/b.jsonl": ROW * 2, "workspaces/w.tar": "a tree"}
    assert texts(tmp_path / "pulled", manifest) == expected
    assert [file.split for file in manifest.files] == [PullSplit.TRAIN, PullSplit.WARMUP, PullSplit.WORKSPACES]
    assert manifest.source == {"kind": "s3", "bucket": bucket, "prefix": "data/"}
    assert manifest == read_manifest(tmp_path / "pulled")
    written = (tmp_path / "pulled" / "manifest.json").read_text()
    assert "test-secret" not in written
    assert "test-access" not in written
    assert str(tmp_path) not in written
    assert sorted(p.name for p in tmp_path.iterdir()) == [".pulled.lock", "pulled"]


def test_second_pull_fetches_only_what_is_new_or_changed(s3_environment, bucket, tmp_path):
    source, target = Counting(S3Source(bucket, "data")), tmp_path / "pulled"
    put(s3_environment, bucket, a=ROW, b=ROW * 2)
    first = pull(source, target)
    stamp = (target / "manifest.json").stat().st_mtime_ns
    source.fetched.clear()

    assert pull(source, target) == first
    assert (target / "manifest.json").stat().st_mtime_ns == stamp
    assert source.fetched == []

    put(s3_environment, bucket, b=ROW * 3, c=ROW * 4)
    second = pull(source, target)
    assert sorted(source.fetched) == ["b.jsonl", "c.jsonl"]
    assert texts(target, second) == {"a.jsonl": ROW, "b.jsonl": ROW * 3, "c.jsonl": ROW * 4}
    known = {file.sha256 for file in first.files}
    assert [file.origin_key for file in second.files if file.sha256 not in known] == ["b.jsonl", "c.jsonl"]
    assert listed_and_present(target)[0] == listed_and_present(target)[1]


def test_growing_over_pulls_gives_the_same_bytes_as_one_pull(s3_environment, bucket, tmp_path):
    put(s3_environment, bucket, a=ROW)
    pull(S3Source(bucket, "data"), tmp_path / "grown")
    put(s3_environment, bucket, a=ROW * 2, b=ROW)
    pull(S3Source(bucket, "data"), tmp_path / "grown")
    pull(S3Source(bucket, "data"), tmp_path / "at-once")

    files = [{p.relative_to(d): p.read_bytes() for p in d.rglob("*") if p.is_file()} for d in
             (tmp_path / "grown", tmp_path / "at-once")]  # fmt: skip
    assert files[0] == files[1]


def test_a_damaged_local_file_is_fetched_again(s3_environment, bucket, tmp_path):
    put(s3_environment, bucket, a=ROW)
    first = pull(S3Source(bucket, "data"), tmp_path / "pulled")
    (tmp_path / "pulled" / first.files[0].path).write_text("x" * len(ROW))
    assert texts(tmp_path / "pulled", pull(S3Source(bucket, "data"), tmp_path / "pulled")) == {"a.jsonl": ROW}


def test_files_gone_at_the_source_stay_until_pruned(s3_environment, bucket, tmp_path):
    target = tmp_path / "pulled"
    put(s3_environment, bucket, a=ROW, b=ROW * 2)
    pull(S3Source(bucket, "data"), target)
    s3_environment.client().delete_object(Bucket=bucket, Key="data/b.jsonl")

    kept = pull(S3Source(bucket, "data"), target)
    assert [(file.origin_key, file.gone) for file in kept.files] == [("a.jsonl", False), ("b.jsonl", True)]
    assert texts(target, kept)["b.jsonl"] == ROW * 2

    pruned = pull(S3Source(bucket, "data"), target, prune=True)
    assert [file.origin_key for file in pruned.files] == ["a.jsonl"]
    assert listed_and_present(target) == ([pruned.files[0].path],) * 2


def test_an_emptied_source_never_empties_the_pull(s3_environment, bucket, tmp_path):
    put(s3_environment, bucket, a=ROW)
    first = pull(S3Source(bucket, "data"), tmp_path / "pulled")
    s3_environment.client().delete_object(Bucket=bucket, Key="data/a.jsonl")
    with pytest.raises(ConfigError, match=r"no \.jsonl"):
        pull(S3Source(bucket, "data"), tmp_path / "pulled", prune=True)
    assert texts(tmp_path / "pulled", first) == {"a.jsonl": ROW}


@pytest.mark.parametrize("prune", [False, True])
def test_warm_up_data_that_remain_do_not_hide_an_emptied_source(s3_environment, bucket, tmp_path, prune):
    put(s3_environment, bucket, a=ROW, **{"warmup/b": ROW})
    first = pull(S3Source(bucket, "data"), tmp_path / "pulled")
    s3_environment.client().delete_object(Bucket=bucket, Key="data/a.jsonl")
    with pytest.raises(ConfigError, match=r"no \.jsonl.* to train on at .*warmup/"):
        pull(S3Source(bucket, "data"), tmp_path / "pulled", prune=prune)
    assert texts(tmp_path / "pulled", first) == {"a.jsonl": ROW, "warmup/b.jsonl": ROW}


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("AWS_ACCESS_KEY_ID", "wrong", "AWS_ACCESS_KEY_ID"),
        ("AWS_SECRET_ACCESS_KEY", "wrong", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_ENDPOINT_URL", "no-url", "AWS_ENDPOINT_URL"),
    ],
)
def test_wrong_settings_of_the_environment_name_the_variable(
    s3_environment, bucket, tmp_path, monkeypatch, name, value, remedy
):
    put(s3_environment, bucket, a=ROW)
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=rf"s3://{bucket}/data/.*{remedy}"):
        pull(S3Source(bucket, "data"), tmp_path / "pulled")


def test_missing_credentials_say_what_to_set(s3_environment, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        pull(S3Source("any-bucket"), tmp_path / "pulled")


@pytest.mark.parametrize(("bucket_name", "why"), [("no-such-bucket", "does not exist"), ("B&d", "bucket name")])
def test_a_bucket_that_cannot_be_names_the_setting(s3_environment, tmp_path, bucket_name, why):
    with pytest.raises(ConfigError, match=rf"s3://{bucket_name}/data/: .*{why}.*source\.bucket"):
        pull(S3Source(bucket_name, "data"), tmp_path / "pulled")


def test_an_unreachable_server_is_temporary_and_tried_again(s3_environment, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://someone:hid-den@127.0.0.1:1")
    waits: list[float] = []
    monkeypatch.setattr(retry, "__defaults__", ((0.5, 1.0), waits.append))
    with pytest.raises(TemporaryError, match="AWS_ENDPOINT_URL") as raised:
        pull(S3Source("any-bucket"), tmp_path / "pulled")
    assert "127.0.0.1:1/any-bucket" in str(raised.value)
    assert "hid-den" not in str(raised.value)
    assert waits == [0.5, 1.0]


class Stumbling(BaseHTTPRequestHandler):
    """Answers a listing after as many failures as `failures` holds."""

    failures: ClassVar[list[tuple[int, str]]] = []

    def do_GET(self) -> None:
        status, code = self.failures.pop(0) if self.failures else (200, "")
        error = f"<Error><Code>{code}</Code></Error>"
        found = "<Contents><Key>a.jsonl</Key><Size>1</Size><ETag>e</ETag></Contents>"
        body = (error if code else f"<ListBucketResult>{found}</ListBucketResult>").encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def stumbling(s3_environment, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stumbling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(retry, "__defaults__", ((0.0, 0.0, 0.0), lambda _: None))
    yield Stumbling.failures
    Stumbling.failures.clear()
    server.shutdown()
    server.server_close()


def test_throttling_and_server_errors_are_tried_again(stumbling):
    stumbling += [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests")]
    assert [item.key for item in S3Source("bucket").open().list_objects(None).objects] == ["a.jsonl"]
    assert stumbling == []


def test_a_server_that_stays_down_is_a_temporary_error(stumbling):
    stumbling += [(503, "SlowDown")] * 4
    with pytest.raises(TemporaryError, match=r"s3://bucket/: the server answered 503 SlowDown"):
        S3Source("bucket").open().list_objects(None)
    assert stumbling == []


def test_a_refusal_is_not_tried_again(stumbling):
    stumbling += [(403, "AccessDenied")] * 2
    with pytest.raises(ConfigError, match="s3:ListBucket"):
        S3Source("bucket").open().list_objects(None)
    assert len(stumbling) == 1


def test_an_object_that_went_away_before_it_was_asked_about_is_a_changed_source():
    gone = {"Error": {"Code": "404", "Message": "Not Found"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    assert isinstance(translate(ClientError(gone, "HeadObject"), "s3://b/p"), TemporaryError)
    assert isinstance(translate(ClientError(gone, "HeadBucket"), "s3://b/p"), ConfigError)


def test_an_empty_prefix_folder_is_a_configuration_error(s3_environment, bucket, tmp_path):
    with pytest.raises(ConfigError, match="check the path or prefix"):
        pull(S3Source(bucket, "nothing-here"), tmp_path / "pulled")


def test_a_key_that_is_no_plain_path_is_refused_before_anything_is_fetched(s3_environment, bucket, tmp_path):
    s3_environment.client().put_object(Bucket=bucket, Key="data/a\nb.jsonl", Body=b"x")
    put(s3_environment, bucket, a=ROW)
    with pytest.raises(DataError, match="not a plain relative path"):
        pull(S3Source(bucket, "data"), tmp_path / "pulled")
    assert read_manifest(tmp_path / "pulled") is None


@pytest.mark.parametrize(
    "key", ["../a.jsonl", "a/../../b.jsonl", "/etc/a.jsonl", "a//b.jsonl", "..\\a.jsonl", "a\0.json"]
)
def test_keys_that_leave_the_folder_are_refused(key):
    with pytest.raises(DataError):
        check_key(key)


def test_flattened_keys_stay_apart_and_short():
    digest = "0123456789abcdef" * 4
    assert landing_path("warmup/2026/a.jsonl.gz", digest) == "warmup/2026--a.0123456789ab.jsonl.gz"
    assert len(landing_path(f"{'x' * 400}.jsonl", digest)) < 200


def test_a_multipart_object_is_verified_by_its_parts(s3_environment, bucket, tmp_path):
    from boto3.s3.transfer import TransferConfig

    big = tmp_path / "big.jsonl"
    big.write_bytes(os.urandom(13 << 20))
    parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3_environment.client().upload_file(str(big), bucket, "data/big.jsonl", Config=parts)

    manifest = pull(S3Source(bucket, "data"), tmp_path / "pulled")

    assert manifest.files[0].sha256 == file_digest(big)
    assert manifest.files[0].origin_version == multipart_etag(big, 5 << 20)
    assert manifest.files[0].origin_version.endswith("-3")  # 5 + 5 + 3 MiB


def test_a_server_error_while_parts_are_verified_is_tried_again(s3_environment, bucket, tmp_path, monkeypatch):
    from boto3.s3.transfer import TransferConfig
    from botocore.awsrequest import AWSResponse
    from urllib3 import HTTPResponse

    monkeypatch.setattr(retry, "__defaults__", ((0.0, 0.0, 0.0), lambda _: None))
    (tmp_path / "big.jsonl").write_bytes(os.urandom(6 << 20))
    parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3_environment.client().upload_file(str(tmp_path / "big.jsonl"), bucket, "data/big.jsonl", Config=parts)
    origin = S3Source(bucket, "data").open()
    answers = [503, 500]

    def answer(request, **_):  # botocore takes what such a handler returns for the server's answer
        body = HTTPResponse(io.BytesIO(), preload_content=False)
        return AWSResponse(request.url, answers.pop(0), {}, body) if answers else None

    origin.client.meta.events.register("before-send.s3.HeadObject", answer)
    origin.fetch(origin.list_objects(None).objects[0], tmp_path / "fetched")
    assert answers == []
    assert file_digest(tmp_path / "fetched") == file_digest(tmp_path / "big.jsonl")


@pytest.mark.parametrize("damaged", [False, True])
def test_half_a_download_is_gone_on_with_and_a_damaged_half_is_thrown_away(s3_environment, bucket, tmp_path, damaged):
    body = os.urandom(3 << 20)
    s3_environment.client().put_object(Bucket=bucket, Key="data/a.jsonl", Body=body)
    origin = S3Source(bucket, "data").open()
    item = origin.list_objects(None).objects[0]
    half = bytes(1 << 20) if damaged else body[: 1 << 20]
    (tmp_path / "a.part").write_bytes(half)
    ranges: list[str | None] = []
    origin.client.meta.events.register("before-call.s3.GetObject", lambda params, **_: ranges.append(
        params["headers"].get("Range")))  # fmt: skip

    origin.fetch(item, tmp_path / "a")

    assert (tmp_path / "a").read_bytes() == body
    assert ranges == ["bytes=1048576-"] + [None] * damaged


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from tasks.pull import S3Source, pull, pulling
    from tasks.pull.s3 import S3Origin

    stage, bucket, target = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    pulling._FETCHES_AT_ONCE = 1
    die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
    if stage == "fetching":
        fetch, done = S3Origin.fetch, []
        def fetch_two(self, item, destination):
            if len(done) == 2:
                die()
            fetch(self, item, destination)
            done.append(item)
        S3Origin.fetch = fetch_two
    elif stage == "moved":
        pulling.Manifest.write = die
    elif stage == "written":
        pulling._remove_unlisted = die
    pull(S3Source(bucket, "data"), target)
"""


@pytest.mark.parametrize("stage", ["fetching", "moved", "written"])
def test_a_pull_killed_at_any_step_leaves_a_valid_pull_and_the_next_one_finishes(
    s3_environment, bucket, tmp_path, stage
):
    target = tmp_path / "pulled"
    put(s3_environment, bucket, a=ROW)
    before = pull(S3Source(bucket, "data"), target)
    put(s3_environment, bucket, a=ROW * 2, b=ROW * 3, c=ROW * 4, d=ROW * 5)

    command = [sys.executable, "-c", textwrap.dedent(KILLED), stage, bucket, str(target)]
    killed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    after = read_manifest(target)
    assert after is not None
    assert all(file.is_intact(target) for file in after.files)
    assert (after == before) == (stage != "written")

    source = Counting(S3Source(bucket, "data"))
    asked: list[str] = []
    source.open()
    source.origin.client.meta.events.register("before-call.s3.GetObject", lambda params, **_: asked.append(
        params["url_path"].rsplit("/", 1)[-1]))  # fmt: skip
    source.open = lambda: source
    final = pull(source, target)
    assert texts(target, final) == {"a.jsonl": ROW * 2, "b.jsonl": ROW * 3, "c.jsonl": ROW * 4, "d.jsonl": ROW * 5}
    assert listed_and_present(target)[0] == listed_and_present(target)[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".pulled.lock", "pulled"]
    if stage == "fetching":
        assert sorted(asked) == ["c.jsonl", "d.jsonl"]  # a and b lay staged, whole and verified


def _pull_in_process(bucket: str, target: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    pull(S3Source(bucket, "data"), target)


def test_two_pulls_at_once_end_in_one_whole_pull(s3_environment, bucket, tmp_path):
    put(s3_environment, bucket, **{f"f{i}": ROW * (i + 1) for i in range(8)})
    context = multiprocessing.get_context("spawn")
    arguments = (bucket, tmp_path / "pulled", s3_environment.environment)
    both = [context.Process(target=_pull_in_process, args=arguments) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    manifest = read_manifest(tmp_path / "pulled")
    assert texts(tmp_path / "pulled", manifest) == {f"f{i}.jsonl": ROW * (i + 1) for i in range(8)}
