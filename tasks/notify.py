"""Telling somebody that a run failed: once, in the log, and to a webhook where PIVOTRL_WEBHOOK names one.

Never raises and never shows the URL, which is a secret.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from pathlib import Path

WEBHOOK_VARIABLE = "PIVOTRL_WEBHOOK"
_LONGEST = 2000  # characters of the message; chat services cut or refuse more

log = logging.getLogger(__name__)


def tell_failure(run_id: str, flow: str, message: str, marks: Path) -> bool:
    """Tell of a failed run, unless that has been done.

    Args:
        run_id: The run.
        flow: Name of its flow.
        message: What went wrong.
        marks: Folder that remembers what has been told.

    Returns:
        Whether it was told now.
    """
    try:
        marks.mkdir(parents=True, exist_ok=True)
        (marks / "failure-told").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError as error:
        log.warning("cannot remember that the failure of %s was told: %s", run_id, error)
    log.error("%s %s failed: %s", flow, run_id, message)
    url = os.environ.get(WEBHOOK_VARIABLE)
    if url:
        _post(url, {"text": f"{flow} {run_id} failed: {message}"[:_LONGEST], "run_id": run_id, "flow": flow})
    return True


def _post(url: str, body: dict[str, str]) -> None:
    data = json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - the user's own
        with urllib.request.urlopen(request, timeout=10.0):  # noqa: S310
            pass
    except Exception as error:  # noqa: BLE001 - telling is a courtesy: it must not hide the failure that it tells of
        log.warning("the webhook in %s did not take the message (%s)", WEBHOOK_VARIABLE, type(error).__name__)
