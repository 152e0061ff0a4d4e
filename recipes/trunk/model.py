"""A Qwen3 decoder in plain torch: weights are a dictionary with Hugging Face's names, LoRA is merged into them, prompts may share a prefix.

Shapes: B rows, T new tokens, P prefix tokens, D hidden, V vocabulary. Computes the same as transformers' Qwen3ForCausalLM (compare_engines.py).
"""

import json
import math
import pathlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


@dataclass(frozen=True)
class NanoConfig:
    vocabulary: int
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    # vLLM's CPU build accepts only multiples of 32.
    head_dim: int = 32
    feed_forward: int = 384
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6
    context: int = 2048

    def linears(self):
        """name: (block, outputs, inputs) of every linear layer of a decoder layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": ("self_attn", queries, self.hidden),
            "k_proj": ("self_attn", keys, self.hidden),
            "v_proj": ("self_attn", keys, self.hidden),
            "o_proj": ("self_attn", self.hidden, queries),
            "gate_proj": ("mlp", self.feed_forward, self.hidden),
            "up_proj": ("mlp", self.feed_forward, self.hidden),
            "down_proj": ("mlp", self.hidden, self.feed_forward),
        }


EMBEDDING = "model.embed_tokens.weight"
# With the usual 0.02 the model did not learn to copy within the budget (the embeddings are tied, so this also scales the logits).
EMBEDDING_STD = 0.08
LINEAR_STD = 0.04


def init_weights(config, seed):
    generator = torch.Generator().manual_seed(seed)

    def normal(rows, columns, std):
        return torch.randn(rows, columns, generator=generator) * std

    weights = {EMBEDDING: normal(config.vocabulary, config.hidden, EMBEDDING_STD), "model.norm.weight": torch.ones(config.hidden)}
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        for name, (block, outputs, inputs) in config.linears().items():
            std = LINEAR_STD / math.sqrt(2 * config.layers) if name in ("o_proj", "down_proj") else LINEAR_STD
            weights[f"{prefix}{block}.{name}.weight"] = normal(outputs, inputs, std)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = torch.ones(config.hidden)
        for name in ("q_norm", "k_norm"):
            weights[f"{prefix}self_attn.{name}.weight"] = torch.ones(config.head_dim)
    return weights


def init_lora(config, rank, seed):
    """PEFT's initialization: A uniform (Kaiming, a = sqrt 5), B zero. Keys are `MODULE.lora_A` [rank, in] and `MODULE.lora_B` [out, rank]."""
    generator = torch.Generator().manual_seed(seed)
    lora = {}
    for layer in range(config.layers):
        for name, (block, outputs, inputs) in config.linears().items():
            module = f"model.layers.{layer}.{block}.{name}"
            lora[f"{module}.lora_A"] = (torch.rand(rank, inputs, generator=generator) * 2 - 1) / math.sqrt(inputs)
            lora[f"{module}.lora_B"] = torch.zeros(outputs, rank)
    return lora


def merge_lora(weights, lora, scale):
    merged = dict(weights)
    for key, a in lora.items():
        if key.endswith(".lora_A"):
            module = key.removesuffix(".lora_A")
            merged[f"{module}.weight"] = weights[f"{module}.weight"] + scale * (lora[f"{module}.lora_B"] @ a)
    return merged


def rotary(config, positions):
    """cos and sin for positions [..., T], ready for [..., heads, T, head_dim]."""
    steps = torch.arange(0, config.head_dim, 2).float() / config.head_dim
    angles = positions.float()[..., None] * config.rope_theta**-steps
    angles = torch.cat([angles, angles], -1)[..., None, :, :]
    return angles.cos(), angles.sin()


def rotate(x, rotation):
    cos, sin = rotation
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def decoder_layer(config, weights, layer, x, rotation, attend):
    """[B, T, D] to [B, T, D]; `attend(layer, q, k, v)` gets [B, heads, T, head_dim] and adds the past."""
    batch, length, _ = x.shape

    def weight(name):
        return weights[f"model.layers.{layer}.{name}.weight"]

    def heads(name, count):
        return F.linear(normed, weight(f"self_attn.{name}")).view(batch, length, count, config.head_dim)

    normed = F.rms_norm(x, (config.hidden,), weight("input_layernorm"), config.norm_eps)
    q, k = (
        rotate(F.rms_norm(heads(f"{name}_proj", count), (config.head_dim,), weight(f"self_attn.{name}_norm"), config.norm_eps).transpose(1, 2), rotation)
        for name, count in (("q", config.heads), ("k", config.kv_heads))
    )
    attended = attend(layer, q, k, heads("v_proj", config.kv_heads).transpose(1, 2))
    x = x + F.linear(attended.transpose(1, 2).reshape(batch, length, -1), weight("self_attn.o_proj"))
    normed = F.rms_norm(x, (config.hidden,), weight("post_attention_layernorm"), config.norm_eps)
    gated = F.silu(F.linear(normed, weight("mlp.gate_proj"))) * F.linear(normed, weight("mlp.up_proj"))
    return x + F.linear(gated, weight("mlp.down_proj"))


def attention(config, q, k, v, mask):
    groups = config.heads // config.kv_heads
    return F.scaled_dot_product_attention(q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), attn_mask=mask)


def prefix_cache(config, weights, ids):
    """[(k, v)] of every layer for the shared prefix, [1, kv_heads, P, head_dim] each."""
    cache = []
    mask = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()

    def attend(_, q, k, v):
        cache.append((k, v))
        return attention(config, q, k, v, mask)

    x = weights[EMBEDDING][torch.tensor(ids)][None]
    rotation = rotary(config, torch.arange(len(ids)))
    for layer in range(config.layers):
        x = decoder_layer(config, weights, layer, x, rotation, attend)
    return cache


def forward(config, weights, ids, prefix=(), where=None):
    """Logits [B, T, V] of ids [B, T] after the shared prefix; rows are padded on the right. With a mask `where` [B, T]: only those, [N, V]."""
    length, past = ids.shape[1], len(prefix)
    cache = prefix_cache(config, weights, prefix) if past else None
    mask = torch.cat([torch.ones(length, past, dtype=torch.bool), torch.ones(length, length, dtype=torch.bool).tril()], 1)

    def attend(layer, q, k, v):
        if cache:
            k = torch.cat([cache[layer][0].expand(len(ids), -1, -1, -1), k], 2)
            v = torch.cat([cache[layer][1].expand(len(ids), -1, -1, -1), v], 2)
        return attention(config, q, k, v, mask)

    x = F.embedding(ids, weights[EMBEDDING])
    rotation = rotary(config, torch.arange(past, past + length))
    for layer in range(config.layers):
        x = decoder_layer(config, weights, layer, x, rotation, attend)
    return to_logits(config, weights, x if where is None else x[where])


def to_logits(config, weights, x):
    return F.linear(F.rms_norm(x, (config.hidden,), weights["model.norm.weight"], config.norm_eps), weights[EMBEDDING])


def hugging_face_config(config, end_of_turn, pad):
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "intermediate_size": config.feed_forward,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.context,
        "initializer_range": 0.02,
        "rms_norm_eps": config.norm_eps,
        "use_cache": True,
        "tie_word_embeddings": True,
        "rope_theta": config.rope_theta,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 28,
        "bos_token_id": None,
        "eos_token_id": end_of_turn,
        "pad_token_id": pad,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def save_files(tokenizer, configs, tensors, directory):
    """Writes NAME.json of `configs`, generation_config.json and model.safetensors; the tokenizer's files are byte_pairs.py's."""
    end_of_turn, pad = stop_ids(tokenizer)
    generation = {"eos_token_id": end_of_turn, "pad_token_id": pad, "do_sample": True, "temperature": 1.0}
    for name, content in {**configs, "generation_config": generation}.items():
        (directory / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})


def stop_ids(tokenizer):
    """(the id that ends a turn, the id that fills rows)."""
    return tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")


def save_model(config, weights, tokenizer, directory):
    """Writes config.json, generation_config.json and model.safetensors."""
    save_files(tokenizer, {"config": hugging_face_config(config, *stop_ids(tokenizer))}, weights, directory)


def load_model(directory):
    """(NanoConfig, weights) of a directory written by `save_model`."""
    directory = pathlib.Path(directory)
    read = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    return read_config(read, read["rope_theta"]), load_file(directory / "model.safetensors")


def read_config(read, rope_theta):
    """NanoConfig of the result of `hugging_face_config`."""
    return NanoConfig(
        vocabulary=read["vocab_size"],
        hidden=read["hidden_size"],
        layers=read["num_hidden_layers"],
        heads=read["num_attention_heads"],
        kv_heads=read["num_key_value_heads"],
        head_dim=read["head_dim"],
        feed_forward=read["intermediate_size"],
        rope_theta=rope_theta,
        norm_eps=read["rms_norm_eps"],
        context=read["max_position_embeddings"],
    )
