"""Which folder holds the model that the configuration names, and what identifies a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotrl_core.config.folders import PULLED
from pivotrl_core.config.inputs import BundledModel, DataConfig, FolderModel, HubModel
from pivotrl_core.config.tree import Config
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.hub import MODEL_FILES, HubRepository, is_commit, is_model_file
from pivotrl_core.engines.model import ADAPTER, context_tokens, follow_path
from pivotrl_core.errors import ConfigError
from pivotrl_core.files import file_digest, read_json
from pivotrl_core.stages.context import StageContext
from pivotrl_core.types import Message, Role, content_id


def source_model(context: StageContext, files: Sequence[str] = MODEL_FILES) -> Path:
    """Folder of the model that the configuration names.

    Args:
        context: of the stage.
        files: patterns of those that must be there; of a hub model no others are downloaded.

    Raises:
        ConfigError: the folder is no model folder, or the hub has no such model.
        TemporaryError: the hub cannot be reached.
    """
    model = context.config.model
    if isinstance(model, BundledModel):
        from pivotrl_core.engines.bundled import bundled_model

        return bundled_model(context.models)
    if isinstance(model, FolderModel):
        return checked_model_folder(context.checkout / Path(model.path).expanduser())
    return HubRepository("model", model.repo, _pulled_revision(context, model)).download(files)


def checked_model_folder(folder: Path) -> Path:
    """The folder, which is one of a Hugging Face model. Raises ConfigError where it is not."""
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"model.path: {folder} is no model folder (config.json is missing); give a Hugging Face folder"
        )
    return folder


def policy_path(context: StageContext, folder: str | Path) -> Path:
    """The policy in a folder below the root; where that points to a model folder of the configuration, that folder."""
    return follow_path(context.path(folder), context.checkout)


def _pulled_revision(context: StageContext, model: HubModel) -> str:
    """The commit that the last pull found a branch or tag at; where it was not asked, what the configuration names."""
    pulled = context.path(f"{PULLED}/model.json")
    if is_commit(model.revision) or not pulled.is_file():
        return model.revision
    found = read_json(pulled)
    return str(found["revision"]) if found.get("repo") == model.repo else model.revision


def policy_digest(folder: Path, base: Path) -> str:
    """Identifies a policy's weights and tokenizer by the bytes of its files (and of the base that an adapter needs).

    A pointer to a commit of the hub says which bytes these are: nothing has to be downloaded.
    """
    folders = [folder, base] if (folder / ADAPTER).exists() else [folder]
    files = [path for one in folders for path in sorted(one.iterdir()) if is_model_file(path)]
    return content_id([[path.name, file_digest(path)] for path in files])


def check_lengths(context: StageContext, folder: Path) -> None:
    """Raise ConfigError where turns may be longer than the context that the model in `folder` was made for."""
    from transformers import AutoConfig

    data = context.config.data
    room = context_tokens(AutoConfig.from_pretrained(folder, local_files_only=True))
    if data.max_state_tokens + data.max_action_tokens > room:
        raise ConfigError(
            f"data.max_state_tokens + data.max_action_tokens is {data.max_state_tokens + data.max_action_tokens}, and "
            f"the model's context has {room} tokens; lower one of them"
        )


def configured_renderer(tokenizer: Any, data: DataConfig) -> ChatRenderer:
    """The renderer that `data` in the configuration asks for."""
    return ChatRenderer(tokenizer, data.tool_format, data.chat_template_kwargs)


def check_template(config: Config, renderer: ChatRenderer) -> None:
    """Raise ConfigError where policies with such a template could not be evaluated: before anything is sampled."""
    if config.source.environment:
        renderer.following_ids([Message(Role.USER, "x")])
    if renderer.opens_thinking and config.evaluate.benchmarks and not config.evaluate.thinking_tokens:
        raise ConfigError(
            "evaluate.thinking_tokens: this model thinks before it answers, and benchmarks allow their answers a few "
            "tokens each; say how many more there are for its thinking, or let the template leave the thinking out by "
            "a variable of its own (data.chat_template_kwargs)"
        )
