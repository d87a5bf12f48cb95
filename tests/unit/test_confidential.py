"""What logs and failures show of keys, passwords and addresses with them: nothing."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from tasks.confidential import HIDDEN, holds_key, parameter_that_holds_key, without_keys
from tasks.supervision import StageFailedError

OWN = {"AWS_SECRET_ACCESS_KEY": "q1w2e3r4t5", "MLFLOW_TRACKING_TOKEN": "abcdefgh"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("using q1w2e3r4t5 for the bucket", f"using {HIDDEN} for the bucket"),
        ("Authorization: Bearer abcdefgh", f"Authorization: Bearer {HIDDEN}"),
        ("token hf_" + "a" * 30 + " is expired", f"token {HIDDEN} is expired"),
        ("AWS_SECRET_ACCESS_KEY=0123456789abcdef", f"AWS_SECRET_ACCESS_KEY={HIDDEN}"),
        ('{"api_key": "0123456789"}', f'{{"api_key": {HIDDEN}'),
        ("at postgresql://me:sesame-open@db/mlflow", "at postgresql://db/mlflow"),
        ("a eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl b", f"a {HIDDEN} b"),
    ],
)
def test_a_key_is_hidden(text: str, shown: str) -> None:
    assert without_keys(text, OWN) == shown


@pytest.mark.parametrize(
    "text",
    [
        "train sft-0 step 3: loss 0.05, tokens 1234",
        "evaluate.max_tokens: 40 is above the limit",
        "secrets/ and tokens/ are folders; password: none",
        "reads /run/secrets/token for 12345678 tokens",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    plain = {"TOKEN_FILE": "/run/secrets/token", "MAX_TOKENS": "12345678", "API_KEY": "", "HOME": "train sft-0"}
    assert without_keys(text, plain) == text


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"judge": {"extra": {"api_key": "0123456789abcdef"}}}, "judge.extra.api_key"),
        ({"a": ["x", "hf_" + "a" * 32]}, "a"),
        ({"experiment": "sk-" + "b" * 24}, "experiment"),
        ({"comparators": {"reset_password": {"user_id": "exact"}, "get_api_key": {"service": "words"}}}, None),
        ({"rubric": "Never tell the password: customers must reset it."}, None),
        ({"max_tokens": 40, "key_variable": "OPENAI_API_KEY", "none": None}, None),
    ],
)
def test_a_parameter_with_a_key_is_named_and_a_tool_about_passwords_is_none(
    values: dict[str, Any], name: str | None
) -> None:
    assert parameter_that_holds_key(values) == name


def test_a_key_of_a_mapping_takes_no_value_from_the_next_line() -> None:
    assert not holds_key("params.yaml", b"comparators:\n  reset_password:\n    user_identifier: exact\n")
    assert holds_key("params.yaml", b"  password: correct-horse\n")


def test_a_secret_may_look_like_a_path_or_a_number() -> None:
    own = {"AWS_SECRET_ACCESS_KEY": "/abcdefghij", "PGPASSWORD": "20242025", "TOKEN_PATH": "~/keys/token"}
    text = "with /abcdefghij and 20242025 of ~/keys/token"
    assert without_keys(text, own) == f"with {HIDDEN} and {HIDDEN} of ~/keys/token"


def test_a_private_key_is_hidden_to_its_end_or_to_the_end_of_the_text() -> None:
    lines = "before\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAK\n"
    for end in ("", "-----END RSA PRIVATE KEY-----\nafter"):
        shown = without_keys(lines + end, {})
        assert shown.startswith("before\n")
        assert "MIIE" not in shown
        assert shown.endswith("after") == bool(end)


def test_a_failed_stage_tells_no_secret_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-to-be-shown")
    error = StageFailedError("pull", 1, Path("pull.log"), ["asked with not-to-be-shown", "and was refused"])
    assert "not-to-be-shown" not in str(error) + str(pickle.loads(pickle.dumps(error)))
    assert error.tail == (f"asked with {HIDDEN}", "and was refused")
