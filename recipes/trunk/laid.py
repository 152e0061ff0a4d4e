"""Shared parts of laid-out starts of weights: a constant dimension, projections that read only tokens, and the parts of the matrices that belong to a head."""

import torch

from .model import EMBEDDING

# Dimension 0 is the same for every token, so that a head can attend by position alone.
CONSTANT = 0


class LaidWeights:
    """`own`: the first dimensions of the residual stream, which hold the token; the others begin at zero. `sharpness`: {layer: root mean square of queries and keys}."""

    def __init__(self, config, weights, seed, own, sharpness):
        self.config, self.weights, self.own = config, weights, own
        self.generator = torch.Generator().manual_seed(seed + 1)
        embedding = weights[EMBEDDING]
        self.std = embedding.std().item()
        embedding[:, own:] = 0
        embedding[:, CONSTANT] = 2 * self.std
        for layer, value in sharpness.items():
            for name in ("q_norm", "k_norm"):
                weights[f"model.layers.{layer}.self_attn.{name}.weight"].fill_(value)

    def projection(self):
        """[head_dim, hidden] with orthonormal rows that read only tokens."""
        size = self.config.head_dim
        rows = torch.zeros(size, self.config.hidden)
        rows[:, 1 : self.own] = torch.linalg.qr(torch.randn(self.own - 1, size, generator=self.generator)).Q.T
        return rows

    def part(self, layer, name, head):
        """[head_dim, hidden]: the rows of a head in its q, k or v."""
        size = self.config.head_dim
        return self.weights[f"model.layers.{layer}.self_attn.{name}_proj.weight"][head * size : (head + 1) * size]

    def written(self, layer, head):
        """[hidden, head_dim]: the output matrix of a head."""
        size = self.config.head_dim
        return self.weights[f"model.layers.{layer}.self_attn.o_proj.weight"][:, head * size : (head + 1) * size]
