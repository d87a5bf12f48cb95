"""`pivotrl verify ROWS`: a verdict for each row of a file, line by line, in their order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TextIO

from pivotrl_core.errors import ConfigError, DataError
from pivotrl_core.files import atomic_path
from pivotrl_core.trajectories.decoding import decode_json
from pivotrl_core.trajectories.rows import open_unpacked
from pivotrl_core.types import Json
from pivotrl_core.verifiers.rows import DOMAINS, verify_row
from pivotrl_core.verifiers.verdict_cache import VerdictCache

COMPAT = "nemo-gym"
MAX_LINE_BYTES = 256_000_000


def verify_file(rows: Path, domain: str = "", compat: str = "", out: Path | None = None) -> int:
    """Write one JSON line for each line that is not blank; how many of them have no verdict.

    Args:
        rows: JSON a line, plain or packed: pivot rows with a `response`; workspaces that they name lie beside the file.
        domain: a key of `DOMAINS`; empty: by what each row carries.
        compat: `nemo-gym`, or empty.
        out: Receives the lines; standard output where there is none.

    Raises:
        ConfigError: no such domain, or nothing of that name to be compatible with.
        DataError: there is no such file, or a packed one is broken.
    """
    check_options(domain, compat)
    if not rows.is_file():
        raise DataError(f"{rows}: no such file; give a file of JSON lines")
    with open_unpacked(rows) as source, TemporaryDirectory(prefix="pivotrl-verify-") as scratch:
        cache = VerdictCache(Path(scratch) / "verdicts.sqlite")
        verdicts = _verdicts(source, DOMAINS.get(domain, ""), compat == COMPAT, rows.parent, cache)
        if out is None:
            count, without = _write(sys.stdout, verdicts)
        else:
            with atomic_path(out) as path, path.open("w", encoding="utf-8") as target:
                count, without = _write(target, verdicts)
    if without:
        print(f"{without} of {count} rows have no verdict; their lines say why under 'error'", file=sys.stderr)
    return without


def check_options(domain: str, compat: str) -> None:
    """Raise ConfigError where there is no such domain, or nothing of that name to be compatible with."""
    if domain and domain not in DOMAINS:
        raise ConfigError(f"--domain {domain}: unknown; one of {', '.join(DOMAINS)}")
    if compat not in ("", COMPAT):
        raise ConfigError(f"--compat {compat}: unknown; only {COMPAT}")


def _verdicts(
    source: BinaryIO, domain: str, compat: bool, workspaces: Path, cache: VerdictCache
) -> Iterator[dict[str, Json]]:
    for number, line in enumerate(_lines(source), start=1):
        if line is None:
            yield _no_verdict(number, f"a line of over {MAX_LINE_BYTES} bytes")
        elif line.strip():
            try:
                yield verify_row(_decode(line), domain, compat, workspaces, cache=cache)
            except DataError as error:
                yield _no_verdict(number, str(error))


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Lines; None for one that is too long, of which never more than the limit is held."""
    while line := source.readline(MAX_LINE_BYTES + 1):
        whole = len(line) <= MAX_LINE_BYTES
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE_BYTES + 1) or b"\n"
        yield line if whole else None


def _decode(line: bytes) -> Json:
    try:
        return decode_json(line.decode("utf-8-sig"))
    except RecursionError:
        raise DataError("nested too deeply to be read") from None
    except ValueError as error:
        raise DataError(f"not JSON: {str(error)[:200]}") from None


def _no_verdict(line: int, error: str) -> dict[str, Json]:
    return {"reward": None, "error": f"line {line}: {error}"[:500]}


def _write(target: TextIO, verdicts: Iterator[dict[str, Json]]) -> tuple[int, int]:
    count = without = 0
    for verdict in verdicts:
        # ASCII: what a policy wrote may hold half a surrogate pair, which UTF-8 cannot carry.
        target.write(json.dumps(verdict, allow_nan=False) + "\n")
        count += 1
        without += verdict["reward"] is None
    return count, without
