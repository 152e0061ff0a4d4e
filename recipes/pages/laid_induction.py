"""Lays induction into random weights: the model copies the token after the last occurrence of the current token.

A model finds this by itself in some hundred steps of repeated strings (minutes of a busy core); laid out it is there from the beginning. Layer 0 copies the previous
token of every place into dimensions of its own, layer 1 looks there for the current token and copies the token of that place. Training goes on from there
and may change all of it; every other weight stays random.
"""

import torch

from ..trunk.laid import CONSTANT, LaidWeights

# The dimensions from this one on hold the previous token.
PREVIOUS = 96
# Pairs of a head's dimensions: the fast ones distinguish neighbouring places, the slow ones hardly turn within a page.
FAST_PAIRS, SLOW_PAIRS = range(4), range(6, 16)
# Root mean squares of queries and keys, which set the sharpness of a layer's attention.
SHARPNESS = {0: 2.5, 1: 2.0}
COPY_STRENGTH = 5.0


def lay_induction(config, weights, seed):
    size, half = config.head_dim, config.head_dim // 2
    laid = LaidWeights(config, weights, seed, PREVIOUS, SHARPNESS)
    std, part, written = laid.std, laid.part, laid.written

    # Layer 0, head 0: attends to the previous place, whatever its token.
    token = laid.projection()
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
        values.copy_(laid.projection())
        written(1, head * group).copy_(COPY_STRENGTH * std * values.T)
    return weights
