"""Telling somebody that a run failed: once, in the log, and to a webhook where PIVOTRL_WEBHOOK names one.

A message that the webhook did not take is kept and posted again when the next run starts, until it has been taken once.
Never raises and never shows the URL, which is a secret.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from pivotrl_core.addresses import without_credentials
from pivotrl_core.files import read_json, write_json

WEBHOOK_VARIABLE = "PIVOTRL_WEBHOOK"
_TOLD, _UNTOLD = "failure-told", "failure-untold.json"
_LONGEST = 2000  # characters of the message; chat services cut or refuse more

TOLD_ANYWAY = {"told_anyway": True}
"""Marks what the command line says by itself, so that its log shows it to nobody twice."""

log = logging.getLogger(__name__)


def tell_failure(run_id: str, flow: str, message: str, marks: Path) -> bool:
    """Tell of a failed run, unless that has been done.

    Args:
        run_id: The run.
        flow: Name of its flow.
        message: What went wrong.
        marks: Folder that remembers what has been told, or what the webhook has yet to take.

    Returns:
        Whether it was told now, in the log at least.
    """
    if (marks / _TOLD).exists() or (marks / _UNTOLD).exists():
        return False
    message = without_credentials(message)
    log.error("%s %s failed: %s", flow, run_id, message, extra=TOLD_ANYWAY)
    url = os.environ.get(WEBHOOK_VARIABLE)
    body = {"text": f"{flow} {run_id} failed: {message}"[:_LONGEST], "run_id": run_id, "flow": flow}
    try:
        marks.mkdir(parents=True, exist_ok=True)
        if url and not _post(url, body):
            write_json(marks / _UNTOLD, body)
        else:
            (marks / _TOLD).touch()
    except OSError as error:
        log.warning("cannot remember that the failure of %s was told: %s", run_id, error)
    return True


def tell_again(runs: Path) -> None:
    """Post what the webhook did not take. To be called by one process at a time.

    Args:
        runs: The folder that holds the `marks` of every run.
    """
    url = os.environ.get(WEBHOOK_VARIABLE)
    if not url:
        return
    for kept in sorted(runs.glob(f"*/{_UNTOLD}")):
        try:
            if _post(url, read_json(kept)):
                kept.rename(kept.with_name(_TOLD))
        except (OSError, ValueError) as error:
            log.warning("%s: cannot be told again: %s", kept, error)


def _post(url: str, body: Mapping[str, str]) -> bool:
    """Whether the webhook took the message."""
    data = json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - the user's own
        with urllib.request.urlopen(request, timeout=10.0):  # noqa: S310
            return True
    except Exception as error:  # noqa: BLE001 - telling is a courtesy: it must not hide the failure that it tells of
        log.warning("the webhook in %s did not take the message (%s)", WEBHOOK_VARIABLE, type(error).__name__)
        return False
