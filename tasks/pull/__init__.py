"""Pull: bring trajectories from a folder, an S3 prefix, a hub repository or the embedded domain into one hashed folder.

This package is an adapter to the outside: it may know boto3 (imported when first needed), and it knows nothing of
Prefect, MLflow or DVC. Its result, a folder with a manifest, is the input of the stage graph.

Invariants: the manifest is written last and replaced in one step; a file's name holds its hash, so a new version never
overwrites the one that the current manifest names; a killed pull leaves manifest and files as they were.
"""

from tasks.pull.embedded import EmbeddedSource
from tasks.pull.folder import FolderSource
from tasks.pull.hub import HubSource
from tasks.pull.manifest import MANIFEST_NAME, Manifest, PulledFile, PullSplit, read_manifest
from tasks.pull.pulling import pull
from tasks.pull.s3 import S3Source

__all__ = [
    "MANIFEST_NAME",
    "EmbeddedSource",
    "FolderSource",
    "HubSource",
    "Manifest",
    "PullSplit",
    "PulledFile",
    "S3Source",
    "pull",
    "read_manifest",
]
