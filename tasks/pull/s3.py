"""S3 source: all data objects below a prefix of a bucket, on AWS or any server that speaks its protocol.

Endpoint and credentials come from the environment alone (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_DEFAULT_REGION), the way boto3 reads them, and are never
recorded. A download carries the listed ETag as a condition, so bytes of two versions never mix in one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import ConfigError, TemporaryError
from tasks.pull.etag import matches_etag
from tasks.pull.manifest import Manifest
from tasks.pull.origin import Listing, SourceObject, is_data_key, is_workspace_key
from tasks.pull.retry import retry
from tasks.pull.s3_errors import translate

if TYPE_CHECKING:
    from botocore.config import Config

_CHUNK = 1 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class S3Source:
    """A prefix of a bucket. A non-empty prefix means that folder: `data` holds `data/a.jsonl`, not `data2/a.jsonl`."""

    bucket: str
    prefix: str = ""

    def open(self) -> S3Origin:
        """Make a client; nothing is asked of the server yet."""
        import boto3

        try:
            with translated(self):
                client: Any = boto3.session.Session().client("s3", config=_client_config())
        except ValueError as error:  # boto3's way to say that an endpoint is no URL
            raise ConfigError(
                f"{self}: {without_credentials(str(error))}: AWS_ENDPOINT_URL must be a URL such as http://127.0.0.1:8333"
            ) from error
        return S3Origin(self, client)

    @property
    def folder(self) -> str:
        """The prefix with its closing slash, or nothing."""
        return f"{self.prefix.strip('/')}/" if self.prefix.strip("/") else ""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.folder}"


def _client_config() -> Config:
    from botocore.config import Config

    # Servers other than AWS are rarely reachable under a host name per bucket.
    own_endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return Config(
        connect_timeout=10,  # seconds
        read_timeout=60,
        retries={"total_max_attempts": 1},  # one owner of retries: tasks.pull.retry
        s3={"addressing_style": "path" if own_endpoint else "auto"},
    )


@contextmanager
def translated(place: S3Source) -> Iterator[None]:
    """Turn every error of boto3 into one of ours that names the bucket and prefix."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (BotoCoreError, ClientError, HTTPError, ConnectionError, TimeoutError) as error:
        raise translate(error, str(place)) from error


@dataclass(frozen=True, slots=True)
class S3Origin:
    """An opened prefix."""

    settings: S3Source
    client: Any

    @property
    def identity(self) -> Mapping[str, str]:
        """Bucket and prefix. Not the endpoint: the same bucket behind another address is the same source."""
        return {"kind": "s3", "bucket": self.settings.bucket, "prefix": self.settings.folder}

    def list_objects(self, _previous: Manifest | None) -> Listing:
        """All data objects below the prefix, in order of their keys."""
        objects = retry(self._list_once)
        return Listing(tuple(sorted(objects, key=lambda item: item.key)))

    def _list_once(self) -> list[SourceObject]:
        folder, objects = self.settings.folder, []
        with translated(self.settings):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.settings.bucket, Prefix=folder)
            for item in (item for page in pages for item in page.get("Contents", ())):
                key = item["Key"].removeprefix(folder)
                if is_data_key(key) or (is_workspace_key(key) and not key.endswith("/")):
                    objects.append(SourceObject(key, item["Size"], item["ETag"].strip('"')))
        return objects

    def fetch(self, item: SourceObject, destination: Path) -> None:
        """Download to `destination`, going on where an earlier try stopped, and verify size and ETag."""
        if destination.exists() and self._verify(item, destination):
            return
        part = destination.with_name(f"{destination.name}.part")
        retry(lambda: self._download(item, part))
        if not self._verify(item, part):
            # A resumed part may be damaged (a crash of the machine leaves holes): once more from the first byte.
            part.unlink()
            retry(lambda: self._download(item, part))
            if not self._verify(item, part):
                part.unlink()
                raise TemporaryError(f"{self.settings}{item.key}: what arrived does not match ETag {item.version}")
        part.replace(destination)

    def _download(self, item: SourceObject, part: Path) -> None:
        done = part.stat().st_size if part.exists() else 0
        if done > item.bytes:
            part.unlink()
            done = 0
        if 0 < done == item.bytes:
            return
        extra = {"Range": f"bytes={done}-"} if done else {}
        with translated(self.settings), part.open("ab") as file:
            answer = self.client.get_object(
                Bucket=self.settings.bucket, Key=self.settings.folder + item.key, IfMatch=f'"{item.version}"', **extra
            )
            for chunk in answer["Body"].iter_chunks(_CHUNK):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def _verify(self, item: SourceObject, path: Path) -> bool:
        return path.stat().st_size == item.bytes and matches_etag(path, item.version, lambda: self._part_bytes(item))

    def _part_bytes(self, item: SourceObject) -> int | None:
        """Size of the first part of a multi-part upload, or None where the server or the encryption hides it."""
        head = retry(lambda: self._head_of_first_part(item))
        opaque = head.get("ServerSideEncryption", "AES256") != "AES256" or "SSECustomerAlgorithm" in head
        return None if opaque else int(head["ContentLength"])

    def _head_of_first_part(self, item: SourceObject) -> Mapping[str, Any]:
        key = self.settings.folder + item.key
        with translated(self.settings):
            head: Mapping[str, Any] = self.client.head_object(Bucket=self.settings.bucket, Key=key, PartNumber=1)
        return head
