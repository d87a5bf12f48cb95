"""Where things come from: the model, the trajectories, and how they are read, split and bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pivotrl_core.config.base import Count, PositiveInt, Probability, Section


class BundledModel(Section):
    """The small instruction model that comes as a package (SmolLM2-135M-Instruct, Apache-2.0)."""

    kind: Literal["bundled"] = "bundled"


class FolderModel(Section):
    """A Hugging Face model folder (safetensors) on this machine."""

    kind: Literal["folder"]
    path: str


class HubModel(Section):
    """A model on the Hugging Face hub, at a commit, tag or branch (a pull records the commit, and stages load it)."""

    kind: Literal["hub"]
    repo: str
    revision: str


ModelSource = Annotated[BundledModel | FolderModel | HubModel, Field(discriminator="kind")]


EnvironmentName = Literal["helpdesk"]
"""Names of environments/registry.py."""


class EmbeddedSource(Section):
    """Trajectories of the embedded domain, recorded by its scripted expert in its real environment."""

    kind: Literal["embedded"] = "embedded"
    domain: EnvironmentName = "helpdesk"
    trajectories: PositiveInt = 96
    warmup_trajectories: Count = 140
    seed: int = 0

    @property
    def environment(self) -> EnvironmentName:
        """The environment that policies are evaluated in."""
        return self.domain


class RecordedSource(Section):
    """Trajectories of one's own."""

    environment: EnvironmentName | None = Field(
        None, description="where policies are evaluated, by its registered name; without one, held-out turns are scored"
    )


class FolderSource(RecordedSource):
    """A folder, one file, or a pattern (`runs/*.jsonl`) of trajectories; an optional second one for the warm-up."""

    kind: Literal["folder"]
    path: str
    warmup_path: str | None = None


class S3Source(RecordedSource):
    """An S3 prefix. Endpoint and credentials come from the environment (AWS_*), never from here."""

    kind: Literal["s3"]
    bucket: str
    prefix: str = ""
    warmup_prefix: str | None = None


class HubSource(RecordedSource):
    """A data set on the Hugging Face hub, pinned to a revision."""

    kind: Literal["hub"]
    repo: str
    revision: str
    patterns: tuple[str, ...] = (
        "*.jsonl", "*.ndjson", "*.json", "*.traj", "*.jsonl.gz", "*.ndjson.gz", "*.json.gz", "*.traj.gz",
        "*.jsonl.zst", "*.ndjson.zst", "*.json.zst", "*.traj.zst", "workspaces/*",
    )  # fmt: skip


TrajectorySource = Annotated[EmbeddedSource | FolderSource | S3Source | HubSource, Field(discriminator="kind")]


# Arguments of transformers' apply_chat_template, and what it gives a template by itself.
_OWN_ARGUMENTS = frozenset({
    "add_generation_prompt", "chat_template", "continue_final_message", "conversation", "documents", "max_length",
    "messages", "padding", "return_assistant_tokens_mask", "return_dict", "return_tensors", "sanitize_control_tokens",
    "tokenize", "tokenizer_kwargs", "tools", "truncation",
})  # fmt: skip


class DataConfig(Section):
    """How trajectories are read: what is too long, how many drops are too many, how they are split."""

    max_drop_share: Probability = Field(
        0.2, description="of the rows read; rows equal to one that is kept do not count"
    )
    max_argument_bytes: PositiveInt = 1_000_000
    max_state_tokens: PositiveInt = 1536
    max_action_tokens: PositiveInt = 128
    validation_share: Probability = Field(0.1, description="share of trajectory groups kept aside for validation")
    test_share: Probability = Field(0.1, description="share of trajectory groups kept aside for held-out turns")
    tool_format: Literal["compact", "hermes"] = "compact"
    chat_template_kwargs: dict[str, bool | int | float | str] = Field(
        default_factory=dict,
        description="variables of the model's chat template, such as enable_thinking: false or date_string",
    )

    @field_validator("chat_template_kwargs")
    @classmethod
    def _are_variables(cls, variables: dict[str, Any]) -> dict[str, Any]:
        own = sorted(_OWN_ARGUMENTS.intersection(variables))
        if own:
            raise ValueError(f"{', '.join(own)}: set by the pipeline itself; name variables of the template alone")
        return variables

    @model_validator(mode="after")
    def _something_is_left_to_train_on(self) -> Self:
        if self.validation_share + self.test_share >= 1.0:
            raise ValueError("validation_share and test_share leave nothing to train on; lower one")
        return self
