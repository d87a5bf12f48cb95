"""A language model that is asked where rules leave open whether two actions are the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pivotrl_core.config.base import PositiveInt, Section
from pivotrl_core.config.engine import VARIABLE, ServerConfig, check_endpoint


class JudgeQuestions(Section):
    """What a judge is asked, and how its answers are read."""

    templates: str = Field(
        "",
        description="folder with DOMAIN.txt and default.txt, relative to the checkout; empty: those of the package. "
        "Stages do not notice edits of these files: give an edited folder another name",
    )
    swap: bool = Field(True, description="ask again with the sides exchanged; the same only if it is said both ways")
    labels: Literal["last-line", "nemo-gym"] = Field(
        "last-line",
        description="how an answer is read: last-line, its last line holds labels of one kind; nemo-gym, the last "
        "label of its last 200 characters, else the first one",
    )
    temperature: float = Field(0.0, ge=0.0, le=2.0)
    max_tokens: PositiveInt = Field(1024, description="of an answer; one that is cut off says nothing")
    state_characters: PositiveInt = Field(4000, description="of the state's end that the judge is shown")
    action_characters: PositiveInt = Field(8000, description="longer actions are not judged, and stay refused")


class ServerJudgeConfig(JudgeQuestions, ServerConfig):
    """Any server that speaks OpenAI's chat completions route."""

    kind: Literal["server"]
    model: str = Field(min_length=1, description="its name at the servers")
    endpoints: tuple[str, ...] = Field(
        (),
        description="addresses up to and with /v1, all serving the same; empty: those that the variable "
        "PIVOTRL_JUDGE_ENDPOINTS names, with commas between them",
    )
    key_variable: str = Field(
        "OPENAI_API_KEY", pattern=VARIABLE, description="environment variable with the key; unset: none is sent"
    )
    concurrency: PositiveInt = Field(8, le=1024, description="questions in flight at once")
    extra: dict[str, Any] = Field({}, description="further fields of each request")

    @field_validator("endpoints")
    @classmethod
    def _are_addresses(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_endpoint(endpoint) for endpoint in endpoints)


class EngineJudgeConfig(JudgeQuestions):
    """A model in the process that verifies, which holds it beside its own. One question at a time."""

    kind: Literal["engine"]
    model: str = Field(min_length=1, description="a Hugging Face folder, relative to the checkout")


JudgeConfig = Annotated[ServerJudgeConfig | EngineJudgeConfig, Field(discriminator="kind")]
