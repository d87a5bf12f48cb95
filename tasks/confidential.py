"""What of a checkout never goes into a record: files that hold keys or data, told by their names and by what they say.

A record is shared with its git repository and shown in MLflow. Not a scanner for every secret: what looks like none of
the forms below is not noticed. What tools wrote into logs is shown without what looks like keys, and without the values
of this process's own secret variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pivotrl_core.addresses import without_credentials

LARGEST = 10 << 20  # bytes; a bigger untracked file is data, not code
_CODE = (".py", ".pyi", ".ipynb")  # taken whatever its name
_KEY_NAMES = re.compile(
    r"""(^|/)(secrets?|credentials|\.ssh|\.aws|\.azure|\.gnupg|\.kube|\.docker)/
    | (^|/)[._](netrc|npmrc|yarnrc|pypirc|pgpass|my\.cnf|boto|s3cfg|dockercfg|htpasswd|git-credentials|vault-token)
    | (^|/)(kubeconfig|rclone\.conf|id_(rsa|dsa|ecdsa|ed25519))[^/]*$
    | (^|/)\.dvc/config\.local$
    | (^|/)[^/]*\.env(\.[^/]*)?$ | (^|/)\.env[^/]*$
    | service[-_.]?account[^/]*$
    | (credential|secret|passwd|password|api[-_]?key|access[-_]?key|aws[-_]keys?|(?<![a-z])tokens?(?![a-z]))[^/]*$
    | \.(pem|key|p8|p12|pfx|ppk|jks|keystore|kdbx|gpg|tfvars|tfstate)$""",
    re.IGNORECASE | re.VERBOSE,
)
_DATA_NAMES = re.compile(r"\.(json|jsonl|ndjson|traj|parquet|csv)(\.gz|\.zst)?$", re.IGNORECASE)
"""A pull records data by hash; trajectories may be private."""
_KEYS = re.compile(
    rb"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | \b(AKIA|ASIA)[A-Z0-9]{16}\b
    | \b(gh[pousr]_|github_pat_|glpat-|hf_|npm_|dckr_pat_|xox[abeprs]-)[A-Za-z0-9_-]{20,}
    | \bsk-[A-Za-z0-9_-]{20,}
    | \bAIza[A-Za-z0-9_-]{35}
    | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.
    | ://[^/\s:@"'<>{}$]{0,500}:[^/\s@"'<>{}$]{3,500}@[A-Za-z0-9\[]
    | hooks\.slack\.com/services/[A-Za-z0-9]""",
    re.VERBOSE,
)
_NAMED = rb"""(secret|passwd|password|access_?key|api_?key|auth_?token|access_?token|account_?key|sas_?token|
    private_?key|connection_?string)(_?(id|key))?["']?\]?[ \t]*[=:][ \t]*"""
_SETTING = re.compile(_NAMED + rb"""["']?(?![$<{*%])[^\s"',;(){}]{8,}""", re.IGNORECASE | re.VERBOSE)
_LITERAL = re.compile(_NAMED + rb"""["'](?=[^"']*[0-9])(?=[^"']*[A-Za-z])[A-Za-z0-9/+_=-]{16,}["']""",
                      re.IGNORECASE | re.VERBOSE)  # fmt: skip
_BLOCK = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_KEY_TEXT = re.compile(f"(?:{_KEYS.pattern.decode()})[A-Za-z0-9._/+=-]*", re.VERBOSE)
_SETTING_TEXT = re.compile(f"(?P<name>{_NAMED.decode()})(?P<value>[^\\s]{{8,}})", re.IGNORECASE | re.VERBOSE)
_SECRET_VARIABLE = re.compile(
    r"secret|token(?!iz)|passw(or)?d|credential|private_?key|(api|access|account|auth)_?key|sas", re.IGNORECASE
)
_PLACES = ("_FILE", "_PATH", "_DIR", "_FOLDER", "_HOME")  # ends of names of variables that name a place
_SHORTEST = 8  # characters of a secret; a shorter value stands in many a text by chance
HIDDEN = "[hidden]"


def reason_to_omit(root: Path, name: str) -> str:
    """Why an untracked file does not go into a record; empty where it does.

    Args:
        root: Of the checkout.
        name: Path of the file below it.
    """
    path = root / name
    if path.is_symlink():
        return ""  # git keeps where it points to, not what lies there
    is_code = path.suffix in _CODE
    if path.stat().st_size > LARGEST:
        return f"above {LARGEST >> 20} MiB"
    if not is_code and _KEY_NAMES.search(name):
        return "named as files are that hold keys"
    if not is_code and _DATA_NAMES.search(name):
        return "named as data is"
    return "a key is in it" if holds_key(name, path.read_bytes()) else ""


def holds_key(name: str, new: bytes, old: bytes = b"") -> bool:
    """Whether lines of `new` that `old` does not have look like a key, a password or an address with one.

    In code a name beside a value means little, so only literals as long as keys are count there.
    """
    known = set(old.splitlines())
    lines = b"\n".join(line for line in new.splitlines() if line not in known)
    named = _LITERAL if PurePosixPath(name).suffix in _CODE else _SETTING
    return bool(_KEYS.search(lines) or named.search(lines))


def parameter_that_holds_key(values: object, name: str = "") -> str | None:
    """The dotted name of a parameter whose value is a key, or a word under the name of one; None where there is none.

    Of text with blanks only known forms of keys count: a rubric may speak of passwords.
    """
    if isinstance(values, Mapping):
        found = (
            parameter_that_holds_key(value, f"{name}.{key}" if name else str(key)) for key, value in values.items()
        )
        return next((one for one in found if one), None)
    if isinstance(values, (list, tuple)):
        return next((one for one in (parameter_that_holds_key(value, name) for value in values) if one), None)
    if not isinstance(values, str):
        return None
    word = f"{name.rpartition('.')[2]}: {values}" if not re.search(r"\s", values) else values
    pattern = _SETTING if word != values else _KEYS
    return name if pattern.search(word.encode()) or _KEYS.search(values.encode()) else None


def without_keys(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text without what looks like a key or a password, and without the values of variables named as secrets are.

    >>> without_keys("password=correct-horse, sent by ghp_0123456789abcdefghijABCDEFGHIJ", {})
    'password=[hidden] sent by [hidden]'
    """
    secrets = {
        value
        for name, value in environment.items()
        if _SECRET_VARIABLE.search(name) and len(value) >= _SHORTEST and not _is_plain(name, value)
    }
    for value in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(value, HIDDEN)
    text = _BLOCK.sub(rf"\1{HIDDEN}\2", without_credentials(text))
    return _SETTING_TEXT.sub(rf"\g<name>{HIDDEN}", _KEY_TEXT.sub(HIDDEN, text))


def _is_plain(name: str, value: str) -> bool:
    """Whether a variable is the place of a secret (`..._TOKEN_FILE`) or a number of tokens, by its name and value.

    A password may be a number, and one AWS key in 64 begins as a path does.
    """
    if value.startswith(("/", "~", ".")):
        return name.upper().endswith(_PLACES)
    return value.isdecimal() and name.upper().endswith("TOKENS")
