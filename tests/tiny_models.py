"""Small random models and a tokenizer for tests: no network, built in a second, the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pivotrl_core.config.stages import ComputeConfig

COMPUTE = ComputeConfig(threads=1, dtype="float32")
LAYERS, HIDDEN = 3, 64  # peft shortens the names of 20 modules and more, as it does for real models: 3 x 7
EOS = "<|im_end|>"
# Writes what it is given, in order, and nothing else: earlier turns are never rewritten.
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As Qwen3 does it: tools in the system message, tool results in tags.
CHATML_TOOLS = (
    "{% if tools %}<|im_start|>system\n{% if messages[0].role == 'system' %}{{ messages[0].content }}\n{% endif %}"
    "<tools>{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools><|im_end|>\n{% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}<|im_start|>user\n<tool_response>"
    "{{ message.content }}</tool_response><|im_end|>\n"
    "{% elif not (tools and loop.first and message.role == 'system') %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Shows of earlier assistant turns their first three letters, as some templates cut thinking.
CHATML_REWRITING = CHATML.replace(
    "{{ message.content }}",
    "{% if message.role == 'assistant' and not loop.last %}({{ message.content[:3] }}){% else %}{{ message.content }}"
    "{% endif %}",
)

# Cuts the thinking of an assistant turn once a user's message follows it, as Qwen3 does.
CHATML_CUTTING = CHATML.replace(
    "{{ message.content }}",
    "{% if message.role == 'assistant' and '</think>' in message.content "
    "and messages[loop.index:] | selectattr('role', 'equalto', 'user') | list %}"
    "{{ message.content.split('</think>')[-1].lstrip('\n') }}{% else %}{{ message.content }}{% endif %}",
)


def tiny_tokenizer(template: str = CHATML) -> Any:
    """A byte-level BPE of 320 entries with ChatML's special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|im_start|>", EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    text = 'You are a helpful agent. Find the order @find {"order_id": "A17"} result: user assistant system tool Done. '
    tokenizer.train_from_iterator([text * 3, "the quick brown fox jumps over the lazy dog " * 3], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=EOS)
    fast.chat_template = template
    return fast


PADDED_KINDS = ("gemma3", "mistral", "qwen3_next", "mamba", "gpt_oss")


def tiny_model(kind: str, seed: int = 0, vocabulary: int = 320) -> Any:
    """A random causal model in fp32, with grouped heads.

    `llama`; `smollm2`, a Llama with the heads of SmolLM2-135M; `qwen3`, with its norms of queries and keys, and
    `qwen3_moe`, with experts besides. And such as cannot share states: `PADDED_KINDS`, with windows of a few tokens
    (gemma3 in two of three layers), with linear attention in two of three layers, without any attention, with sinks.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary, "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "tie_word_embeddings": True, "initializer_range": 0.15, "bos_token_id": None, "eos_token_id": 1,
    }  # fmt: skip
    shape |= {"attn_implementation": "eager" if kind == "gpt_oss" else "sdpa"}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
    name, own = {
        "llama": ("Llama", {}),
        "smollm2": ("Llama", {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3,
                              "rope_theta": 100_000.0}),
        # A head size that is not hidden / heads, as in the larger Qwen3 models.
        "qwen3": ("Qwen3", {"head_dim": 24}),
        "qwen3_moe": ("Qwen3Moe", {"head_dim": 24, **experts}),
        "gemma3": ("Gemma3", {"head_dim": 16, "sliding_window": 6,
                              "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
        "mistral": ("Mistral", {"sliding_window": 5}),
        "qwen3_next": ("Qwen3Next", {
            "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8, "shared_expert_intermediate_size": 32, **experts,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"]}),
        "mamba": ("Mamba", {"state_size": 8}),
        "gpt_oss": ("GptOss", {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
                               "layer_types": ["full_attention"] * LAYERS, "tie_word_embeddings": False}),
    }[kind]  # fmt: skip
    if kind == "mamba":
        kept = ("vocab_size", "hidden_size", "num_hidden_layers", "initializer_range", "bos_token_id", "eos_token_id")
        shape = {key: shape[key] for key in kept}
    config = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config"))
    return getattr(transformers, f"{name}ForCausalLM")(config(**shape | own)).float().eval()


def save_tiny(kind: str, folder: Path, seed: int = 0, template: str = CHATML) -> Path:
    """A model folder with tokenizer, as `load_policy` reads it."""
    tiny_model(kind, seed).save_pretrained(folder)
    tiny_tokenizer(template).save_pretrained(folder)
    return folder
