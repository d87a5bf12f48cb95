"""Which engine a stage samples through: the model in its process, or servers where `engine` says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pivotrl_core.config.engine import (
    OpenAIEngineConfig,
    SamplingStage,
    TransformersEngineConfig,
    VLLMEngineConfig,
)
from pivotrl_core.config.folders import BASE_POLICY
from pivotrl_core.engines.chat import ChatRenderer
from pivotrl_core.engines.completions import TextReading
from pivotrl_core.engines.hub import TOKENIZER_FILES
from pivotrl_core.engines.model import ADAPTER, compute_dtype, context_tokens, resolve_folder
from pivotrl_core.engines.openai_engine import OpenAIEngine
from pivotrl_core.engines.openai_servers import openai_engine_of
from pivotrl_core.engines.protocol import ChatEngine
from pivotrl_core.engines.vllm_engine import FixedAdapter, Placement, Weights, vllm_engine
from pivotrl_core.engines.vllm_server import Serving
from pivotrl_core.errors import ConfigError
from pivotrl_core.stages.context import StageContext
from pivotrl_core.stages.models import policy_path


def samples_elsewhere(context: StageContext, stage: SamplingStage) -> bool:
    """Whether this stage samples through servers."""
    engine = context.config.engine
    return not isinstance(engine, TransformersEngineConfig) and stage in engine.stages


def engine_kind(context: StageContext, stage: SamplingStage) -> str:
    """Name of the kind of engine that this stage samples through, for its report."""
    return context.config.engine.kind if samples_elsewhere(context, stage) else "transformers"


@contextmanager
def server_engine(
    context: StageContext, stage: SamplingStage, policy: str, renderer: ChatRenderer
) -> Iterator[ChatEngine]:
    """The engine on servers that samples from the policy in a folder, for the time of the block.

    Args:
        context: of the stage.
        stage: which one; evaluation alone may read texts.
        policy: its folder, relative to the root.
        renderer: whose tokenizer ends turns.

    Raises:
        ConfigError: the servers serve another policy, or cannot do what is asked.
        EngineError, TemporaryError: a server cannot be started or reached.
    """
    settings = context.config.engine
    folder, base = policy_path(context, policy), policy_path(context, BASE_POLICY)
    adapter = FixedAdapter(folder) if (folder / ADAPTER).exists() else None
    whole = folder if adapter is None else base
    if isinstance(settings, OpenAIEngineConfig):
        from transformers import AutoConfig

        if Path(settings.serves) != Path(policy):
            raise ConfigError(
                f"engine.serves: the servers serve {settings.serves}, and this is {policy}; leave '{stage}' out of "
                "engine.stages, so that it samples in its own process, or take kind: vllm"
            )
        texts = TextReading(renderer.eos_text, renderer.encode) if stage == "evaluate" else None
        model = resolve_folder(whole, TOKENIZER_FILES)  # the servers have the weights
        room = context_tokens(AutoConfig.from_pretrained(model, local_files_only=True))
        with openai_engine_of(settings, renderer.eos_id, room, texts) as engine:
            yield engine
        return
    assert isinstance(settings, VLLMEngineConfig)
    with _vllm(context, settings, resolve_folder(whole), renderer, adapter) as engine:
        yield engine


@contextmanager
def following_engine(
    context: StageContext, start: str, weights: Weights, renderer: ChatRenderer
) -> Iterator[ChatEngine]:
    """The engine on a vLLM server that follows a policy in training, for the time of the block.

    Args:
        context: of the stage.
        start: folder of the policy that training starts from, relative to the root.
        weights: what it follows, from the first sample on.
        renderer: whose tokenizer ends turns.

    Raises:
        ConfigError, EngineError: there is no vLLM, or its server cannot be started.
    """
    settings = context.config.engine
    assert isinstance(settings, VLLMEngineConfig)
    own = policy_path(context, start)
    whole = policy_path(context, BASE_POLICY) if weights.lora_rank or (own / ADAPTER).exists() else own
    with _vllm(context, settings, resolve_folder(whole), renderer, weights) as engine:
        yield engine


def _vllm(
    context: StageContext, settings: VLLMEngineConfig, model: Path, renderer: ChatRenderer, weights: Weights | None
) -> AbstractContextManager[OpenAIEngine]:
    compute = context.config.compute
    dtype = compute_dtype(compute) if settings.dtype == "compute" else settings.dtype
    rank = 0 if weights is None else weights.lora_rank
    serving = Serving(model, dtype, compute.threads, compute.device == "cuda", rank)
    place = Placement(context.checkout, context.scratch)
    return vllm_engine(settings, serving, place, renderer.eos_id, weights)
