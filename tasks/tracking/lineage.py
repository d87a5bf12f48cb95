"""The model registry: a version is a pointer to weights that DVC keeps, with the tags that say where it came from.

MLflow never holds the weights. The source of a version is the `model/` folder of the child run's artifacts, which holds
`pointer.json` (relative folder, md5, commit, remote); a source inside the run is accepted by every kind of store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pivotrl_core.types import Json
from tasks.tracking.parameters import flatten

POINTER = "model/pointer.json"
PREFIX = "pivotrl.lineage."


def register(client: Any, name: str, pointer: Mapping[str, Json], run_id: str, lineage: Mapping[str, Json]) -> str:
    """Register the model of a child run; a run that is registered already keeps its version.

    Args:
        client: an MlflowClient.
        name: registered model's name.
        pointer: where the weights lie: relative path, md5, commit, remote. No absolute paths.
        run_id: the child run that trained it.
        lineage: base model, pool, profile, data and parent digests.
    """
    _ensure_model(client, name)
    # MLflow cannot search versions by run id on every store, so the name's versions are asked and compared.
    same = [one for one in client.search_model_versions(f"name = '{name}'") if one.run_id == run_id]
    if same:
        return str(same[0].version)
    client.log_text(run_id, json.dumps(pointer, sort_keys=True, indent=2) + "\n", POINTER)
    source = f"{client.get_run(run_id).info.artifact_uri}/model"
    tags = {f"{PREFIX}{key}": value for key, value in flatten(lineage).items()}
    tags |= {f"pivotrl.pointer.{key}": value for key, value in flatten(pointer).items()}
    return str(client.create_model_version(name, source, run_id=run_id, tags=tags, await_creation_for=0).version)


def _ensure_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
