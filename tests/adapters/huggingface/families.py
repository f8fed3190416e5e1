"""Small random models of many families of transformers, by name."""

import torch

VOCABULARY = 12
_SHARED = {"vocab_size": VOCABULARY, "hidden_size": 32, "use_cache": False, "pad_token_id": 0, "bos_token_id": 0}
_SHARED |= {"eos_token_id": 0}
_LAYERS = {"num_hidden_layers": 3}
_HEADS = {"num_attention_heads": 4}
_MLP = {"intermediate_size": 64}
_KV = {"num_key_value_heads": 2}
_DECODER = _SHARED | _LAYERS | _HEADS | _MLP | _KV
_SSM = _SHARED | _LAYERS | {"state_size": 4}

CONFIGS = {
    "mamba": ("mamba", _SSM),
    "mamba2": ("mamba2", _SSM | {"num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8}),
    "falcon_mamba": ("falcon_mamba", _SSM),
    "gpt_neox": ("gpt_neox", _SHARED | _LAYERS | _HEADS | _MLP | {"max_position_embeddings": 64}),
    "gpt2": ("gpt2", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "llama": ("llama", _DECODER),
    "qwen2": ("qwen2", _DECODER),
    "qwen3": ("qwen3", _DECODER | {"head_dim": 8}),
    "recurrent_gemma": ("recurrent_gemma", _DECODER | {"lru_width": 32, "attention_window_size": 16, "head_dim": 8}),
    "jamba": (
        "jamba",
        _DECODER
        | {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "num_experts": 2}
        | {"expert_layer_period": 2, "expert_layer_offset": 1, "mamba_dt_rank": 2},
    ),
    "zamba": (
        "zamba",
        _SHARED
        | _HEADS
        | _MLP
        | {"num_hidden_layers": 6, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "hybrid"]}
        | {"n_mamba_heads": 2, "num_key_value_heads": 4, "mamba_d_state": 4},
    ),
    "rwkv": ("rwkv", _SHARED | _LAYERS | {"attention_hidden_size": 32, "rescale_every": 2, "context_length": 64}),
    "xlstm": ("xlstm", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_blocks": 3, "num_heads": 4}),
    "opt": (
        "opt",
        _SHARED | _LAYERS | _HEADS | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    ),
}


def make_config(family, **changes):
    from transformers import AutoConfig

    kind, options = CONFIGS[family]
    return AutoConfig.for_model(kind, **(options | changes))


def make_model(family, *, head=False, **changes):
    """A model with random weights; with `head`, the language model's own head on it, as checkpoints have it."""
    from transformers import AutoModel, AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return (AutoModelForCausalLM if head else AutoModel).from_config(make_config(family, **changes))
