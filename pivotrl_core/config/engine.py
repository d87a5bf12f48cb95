"""Where tokens are sampled: the model in this process, a vLLM server that a stage starts, or servers that are there."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pivotrl_core.addresses import without_credentials
from pivotrl_core.config.base import Count, PositiveInt, Probability, Section
from pivotrl_core.config.folders import BASE_POLICY

SamplingStage = Literal["profile", "train", "evaluate"]
STAGES: tuple[SamplingStage, ...] = ("profile", "train", "evaluate")
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
Seconds = Annotated[float, Field(gt=0.0, le=86_400.0)]


class TransformersEngineConfig(Section):
    """The model in this process (the default): nothing to start, and the same bits every time."""

    kind: Literal["transformers"] = "transformers"


class ServerConfig(Section):
    """What engines behind HTTP have in common."""

    concurrency: PositiveInt = Field(
        64, le=1024, description="requests in flight at once, over all endpoints; a GPU is fast with some hundreds"
    )
    request_seconds: Seconds = Field(600.0, description="how long one request may take before it is tried again")
    retries: Count = Field(
        5, le=100, description="more tries of a request after a lost connection, a time-out, or an answer 429 or 5xx"
    )


class VLLMEngineConfig(ServerConfig):
    """A vLLM server of this stage's own, in an environment of its own (`make vllm` builds one), on 127.0.0.1.

    Its weights follow training after each step.
    """

    kind: Literal["vllm"]
    stages: tuple[SamplingStage, ...] = Field(
        STAGES, min_length=1, description="stages that sample through it; the others sample in their own process"
    )
    environment: str = Field(
        "",
        description="folder of the Python environment with vLLM, relative to the checkout; empty: what the variable "
        "PIVOTRL_VLLM names, or .vllm, where `make vllm` builds it",
    )
    dtype: Literal["compute", "bfloat16", "float32"] = Field("compute", description="compute: that of compute.dtype")
    context_tokens: PositiveInt | None = Field(
        None, ge=16, description="longest prompt with its continuation; none: what the model was made for"
    )
    start_seconds: Seconds = Field(900.0, description="how long the server may take until it is ready")
    memory_share: Probability = Field(
        0.5, gt=0.0, description="share of the GPU's memory that it takes: in training the rest is the trainer's"
    )
    cache_gib: PositiveInt = Field(1, description="memory of the key-value cache on a CPU, GiB, taken at once")


class OpenAIEngineConfig(ServerConfig):
    """Servers that are there already (vLLM, SGLang, or another that speaks OpenAI's completions route).

    They serve one policy, whose weights this pipeline cannot change: the profile of that policy, and its evaluation.
    """

    kind: Literal["openai"]
    stages: tuple[SamplingStage, ...] = Field(
        ("profile",), min_length=1, description="stages that sample through it: profile, evaluate, or both"
    )
    model: str = Field(min_length=1, description="name of the model at the servers")
    serves: str = Field(
        BASE_POLICY,
        description="folder of the policy that they serve, as in graph.yaml (models/base, models/ARM/SEED): a stage "
        "that samples from another policy is refused",
    )
    endpoints: tuple[str, ...] = Field(
        (),
        description="addresses up to and with /v1, all serving the same; empty: those that the variable "
        "PIVOTRL_ENDPOINTS names, with commas between them",
    )
    key_variable: str = Field(
        "OPENAI_API_KEY", pattern=VARIABLE, description="environment variable with the key; unset: none is sent"
    )

    @field_validator("stages")
    @classmethod
    def _no_training(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if "train" in stages:
            raise ValueError("these servers' weights cannot follow a training; leave train out, or take kind: vllm")
        return stages

    @field_validator("endpoints")
    @classmethod
    def _are_addresses(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_endpoint(endpoint) for endpoint in endpoints)


EngineConfig = Annotated[TransformersEngineConfig | VLLMEngineConfig | OpenAIEngineConfig, Field(discriminator="kind")]


def check_endpoint(endpoint: str) -> str:
    """An address without a slash at its end. Raises ValueError for one that is none, or has a password in it."""
    address = endpoint.strip().rstrip("/")
    scheme, _, rest = address.partition("://")
    if scheme not in ("http", "https") or not _names_host(address):
        shown = without_credentials(endpoint)
        raise ValueError(f"{shown!r} is no address of a server; give one such as http://127.0.0.1:8000/v1")
    if "@" in rest or "?" in rest:
        raise ValueError("an endpoint has a user, password or query; the key belongs into what key_variable names")
    return address


def _names_host(address: str) -> bool:
    """Whether a program could connect to it: a host without spaces, and a port that is a number, or none."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and not any(map(str.isspace, address)) and parts.port != 0
    except ValueError:  # a port that is no number, or out of range; a bracket that is not closed
        return False
