"""Lays induction into random weights: what stands after the last occurrence of the current token is copied.

A model finds this by itself in some hundred steps of repeated strings (minutes of a busy core); laid out it is there from the first. Layer 0 copies the previous
token of every place into dimensions of its own, layer 1 looks there for the current token and copies the token of that place. Training goes on from there
and may change all of it; every other weight stays random.
"""

import torch
from model import EMBEDDING

# Dimension 0 is the same for every token: what a head needs to attend by place alone. The last ones hold the previous token.
CONSTANT, PREVIOUS = 0, 96
# Pairs of a head's dimensions: the fast ones tell neighbouring places apart, the slow ones hardly turn within a page.
FAST_PAIRS, SLOW_PAIRS = range(4), range(6, 16)
# Root mean squares of queries and keys: how sharply a layer attends.
SHARPNESS = {0: 2.5, 1: 2.0}
COPY_STRENGTH = 5.0


def lay_induction(config, weights, seed):
    generator = torch.Generator().manual_seed(seed + 1)
    size, half = config.head_dim, config.head_dim // 2
    embedding = weights[EMBEDDING]
    std = embedding.std().item()
    embedding[:, PREVIOUS:] = 0
    embedding[:, CONSTANT] = 2 * std

    def projection():
        """[size, hidden] with orthonormal rows that read tokens alone."""
        rows = torch.zeros(size, config.hidden)
        rows[:, 1:PREVIOUS] = torch.linalg.qr(torch.randn(PREVIOUS - 1, size, generator=generator)).Q.T
        return rows

    def part(layer, name, head):
        return weights[f"model.layers.{layer}.self_attn.{name}_proj.weight"][head * size : (head + 1) * size]

    def written(layer, head):
        return weights[f"model.layers.{layer}.self_attn.o_proj.weight"][:, head * size : (head + 1) * size]

    for layer, sharpness in SHARPNESS.items():
        for name in ("q_norm", "k_norm"):
            weights[f"model.layers.{layer}.self_attn.{name}.weight"].fill_(sharpness)

    # Layer 0, head 0: attends to the place before, whatever stands there.
    token = projection()
    for name in ("q", "k"):
        part(0, name, 0).zero_()
    for pair in FAST_PAIRS:
        angle = torch.tensor(config.rope_theta ** (-2 * pair / size))
        part(0, "q", 0)[pair, CONSTANT] = 1
        part(0, "k", 0)[pair, CONSTANT], part(0, "k", 0)[pair + half, CONSTANT] = angle.cos(), angle.sin()
    part(0, "v", 0).copy_(token)
    written(0, 0).zero_()
    written(0, 0)[PREVIOUS:] = std * torch.eye(size)

    # Layer 1, the first head of each pair: attends to places whose previous token is the current one, and copies their token.
    slow = torch.tensor([dimension for pair in SLOW_PAIRS for dimension in (pair, pair + half)])
    group = config.heads // config.kv_heads
    for head in range(config.kv_heads):
        queries, keys, values = part(1, "q", head * group), part(1, "k", head), part(1, "v", head)
        queries.zero_()
        keys.zero_()
        queries[slow] = token[: len(slow)]
        keys[slow] = torch.eye(config.hidden)[PREVIOUS : PREVIOUS + len(slow)]
        values.copy_(projection())
        written(1, head * group).copy_(COPY_STRENGTH * std * values.T)
    return weights
