"""Qwen3-VL in plain torch: the decoder of recipes/base with three-axis positions, and a vision tower. Weights are a dictionary with Hugging Face's names.

Shapes: B rows, T tokens after a shared prefix of P, N pictures of one size, D hidden. Sides of pictures are multiples of 32, inside the processor's bounds.
Computes the same as transformers' Qwen3VLForConditionalGeneration (agreement.py).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..trunk.model import EMBEDDING, attention, decoder_layer, init_weights, prefix_cache, to_logits

PATCH, MERGE, FRAMES, CHANNELS = 16, 2, 2, 3
# Side of an image token, in pixels.
UNIT = PATCH * MERGE
# Frequencies of the axes time, height and width, interleaved.
SECTIONS = (6, 5, 5)
NORM_EPS = 1e-6
# The scale of the learned positions at the start: as large as the output of the patches' filters.
POSITIONS_STD = 0.5


@dataclass(frozen=True)
class TowerConfig:
    hidden: int = 64
    depth: int = 1
    heads: int = 2
    feed_forward: int = 128
    # Learned positions a side; a page as it is shown has as many patches.
    positions: int = 8
    out: int = 128
    # Blocks whose output is added to the first layers of the decoder.
    deep: tuple = (0,)


def init_tower(config, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {}

    def linear(name, outputs, inputs, shape=None):
        weights[f"visual.{name}.weight"] = (torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs)).view(shape or (outputs, inputs))
        weights[f"visual.{name}.bias"] = torch.zeros(outputs)

    def norm(name, size):
        weights[f"visual.{name}.weight"], weights[f"visual.{name}.bias"] = torch.ones(size), torch.zeros(size)

    hidden, merged = config.hidden, config.hidden * MERGE**2
    pixels = CHANNELS * FRAMES * PATCH**2
    linear("patch_embed.proj", hidden, pixels, (hidden, CHANNELS, FRAMES, PATCH, PATCH))
    weights["visual.pos_embed.weight"] = torch.randn(config.positions**2, hidden, generator=generator) * POSITIONS_STD
    for i in range(config.depth):
        norm(f"blocks.{i}.norm1", hidden)
        norm(f"blocks.{i}.norm2", hidden)
        linear(f"blocks.{i}.attn.qkv", 3 * hidden, hidden)
        linear(f"blocks.{i}.attn.proj", hidden, hidden)
        linear(f"blocks.{i}.mlp.linear_fc1", config.feed_forward, hidden)
        linear(f"blocks.{i}.mlp.linear_fc2", hidden, config.feed_forward)
        for part in ("attn.proj", "mlp.linear_fc2"):
            weights[f"visual.blocks.{i}.{part}.weight"] *= 0.3
    mergers = [("merger", hidden, 0.1), *((f"deepstack_merger_list.{i}", merged, 0.1) for i in range(len(config.deep)))]
    for name, normed, scale in mergers:
        norm(f"{name}.norm", normed)
        linear(f"{name}.linear_fc1", merged, merged)
        linear(f"{name}.linear_fc2", config.out, merged)
        weights[f"visual.{name}.linear_fc2.weight"] *= scale
    return weights


def init_vlm(config, tower, seed):
    return init_weights(config, seed) | init_tower(tower, seed + 1)


def patches(pictures):
    """[N, H, W, 3] bytes to [N, patches, pixels] in the processor's order: the patches of an image token side by side."""
    count, height, width = pictures.shape[:3]
    x = torch.from_numpy(np.array(pictures)).float() / 127.5 - 1
    x = x.permute(0, 3, 1, 2).view(count, CHANNELS, height // UNIT, MERGE, PATCH, width // UNIT, MERGE, PATCH)
    x = x.permute(0, 2, 5, 3, 6, 1, 4, 7)[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, FRAMES, -1, -1)
    return x.reshape(count, (height // PATCH) * (width // PATCH), CHANNELS * FRAMES * PATCH**2)


def patch_places(height, width):
    """[patches, 2] row and column of every patch, in the processor's order."""
    places = torch.cartesian_prod(torch.arange(height // PATCH), torch.arange(width // PATCH)).view(height // UNIT, MERGE, width // UNIT, MERGE, 2)
    return places.permute(0, 2, 1, 3, 4).reshape(-1, 2)


def learned_positions(config, table, height, width):
    """[patches, hidden]: the table, resampled bilinearly so that its corners lie at the picture's."""
    rows, columns = (torch.linspace(0, config.positions - 1, side // PATCH) for side in (height, width))
    at = patch_places(height, width)
    row, column = rows[at[:, 0]], columns[at[:, 1]]
    top, left = row.long(), column.long()
    down, right = (row - top)[:, None], (column - left)[:, None]
    bottom, beyond = (top + 1).clamp(max=config.positions - 1), (left + 1).clamp(max=config.positions - 1)
    side = config.positions
    return (table[top * side + left] * (1 - right) + table[top * side + beyond] * right) * (1 - down) + (
        table[bottom * side + left] * (1 - right) + table[bottom * side + beyond] * right
    ) * down


def tower_rotation(config, height, width):
    size = config.hidden // config.heads // 2
    steps = 10000.0 ** -(torch.arange(0, size, 2).float() / size)
    angles = (patch_places(height, width)[:, :, None] * steps).flatten(1)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def see(config, weights, pictures):
    """Pictures [N, H, W, 3] of one size: (embeddings [N, tokens, D], [embeddings that are added after each of the first layers])."""
    height, width = pictures.shape[1:3]

    def linear(name, x):
        return F.linear(x, weights[f"visual.{name}.weight"].flatten(1), weights[f"visual.{name}.bias"])

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], weights[f"visual.{name}.weight"], weights[f"visual.{name}.bias"], NORM_EPS)

    def merged(name, x, after):
        groups = (-1, x.shape[1] // MERGE**2, config.hidden * MERGE**2)
        x = norm(f"{name}.norm", x.reshape(groups)) if after else norm(f"{name}.norm", x).reshape(groups)
        return linear(f"{name}.linear_fc2", F.gelu(linear(f"{name}.linear_fc1", x)))

    x = linear("patch_embed.proj", patches(pictures)) + learned_positions(config, weights["visual.pos_embed.weight"], height, width)
    cos, sin = tower_rotation(config, height, width)
    half = config.hidden // config.heads // 2
    deep = []
    for i in range(config.depth):
        q, k, v = linear(f"blocks.{i}.attn.qkv", norm(f"blocks.{i}.norm1", x)).unflatten(-1, (3, config.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (one * cos + torch.cat([-one[..., half:], one[..., :half]], -1) * sin for one in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + linear(f"blocks.{i}.attn.proj", attended)
        hidden = F.gelu(linear(f"blocks.{i}.mlp.linear_fc1", norm(f"blocks.{i}.norm2", x)), approximate="tanh")
        x = x + linear(f"blocks.{i}.mlp.linear_fc2", hidden)
        if i in config.deep:
            deep.append(merged(f"deepstack_merger_list.{config.deep.index(i)}", x, after=True))
    return merged("merger", x, after=False), deep


def three_axis_rotation(config, positions):
    """cos and sin [B, 1, T, head_dim] for positions [3, B, T]."""
    steps = config.rope_theta ** -(torch.arange(0, config.head_dim, 2).float() / config.head_dim)
    axis = torch.zeros(len(steps), dtype=torch.long)
    for of in (1, 2):
        axis[of : SECTIONS[of] * 3 : 3] = of
    angles = positions.float().permute(1, 2, 0)[..., axis] * steps
    angles = torch.cat([angles, angles], -1)[:, None]
    return angles.cos(), angles.sin()


def token_positions(ids, sizes, image_pad, start=0):
    """[3, T] of one sequence; `sizes` are heights and widths of its pictures in tokens."""
    positions = np.zeros((3, len(ids)), np.int64)
    at, i, left = start, 0, list(sizes)
    while i < len(ids):
        if ids[i] != image_pad:
            positions[:, i] = at
            at, i = at + 1, i + 1
            continue
        height, width = left.pop(0)
        end = i + height * width
        positions[0, i:end] = at
        positions[1, i:end] = at + np.arange(height * width) // width
        positions[2, i:end] = at + np.arange(height * width) % width
        at, i = at + max(height, width), end
    return positions


@dataclass
class VlmBatch:
    ids: torch.Tensor
    # [3, B, T]
    positions: torch.Tensor
    # By size: (pictures [N, H, W, 3], row [N] and first token [N] of each).
    pictures: list

    def spread(self, config, tower, weights):
        """Embeddings [B, T, D] with pictures in their places, and the embeddings that are added after the first layers."""
        x = F.embedding(self.ids, weights[EMBEDDING])
        added = [torch.zeros_like(x) for _ in tower.deep]
        for pictures, rows, starts in self.pictures:
            seen, deep = see(tower, weights, pictures)
            columns = starts[:, None] + torch.arange(seen.shape[1])
            where = (rows[:, None].expand_as(columns), columns)
            x = x.index_put(where, seen)
            added = [one.index_put(where, features) for one, features in zip(added, deep, strict=True)]
        return x, added


def make_batch(sequences, image_pad, pad, starts):
    """A batch of (ids, pictures); `starts` are the positions of their first tokens."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one, _ in sequences], batch_first=True, padding_value=pad)
    positions = torch.zeros(3, *ids.shape, dtype=torch.long)
    by_size = {}
    for row, ((one, pictures), start) in enumerate(zip(sequences, starts, strict=True)):
        sizes = [(picture.shape[0] // UNIT, picture.shape[1] // UNIT) for picture in pictures]
        positions[:, row, : len(one)] = torch.from_numpy(token_positions(one, sizes, image_pad, start))
        at = 0
        for picture, (height, width) in zip(pictures, sizes, strict=True):
            at = one.index(image_pad, at)
            by_size.setdefault(picture.shape, []).append((picture, row, at))
            at += height * width
    columns = [zip(*group, strict=True) for group in by_size.values()]
    return VlmBatch(ids, positions, [(np.stack(seen), torch.tensor(rows), torch.tensor(firsts)) for seen, rows, firsts in columns])


def vlm_forward(config, tower, weights, batch, prefix=(), where=None):
    """Logits [B, T, V] after the shared prefix of text; with a mask `where` [B, T] only those, [N, V]."""
    count, length = batch.ids.shape
    cache = prefix_cache(config, weights, prefix) if len(prefix) else None
    mask = torch.cat([torch.ones(length, len(prefix), dtype=torch.bool), torch.ones(length, length, dtype=torch.bool).tril()], 1)

    def attend(layer, q, k, v):
        if cache:
            k = torch.cat([cache[layer][0].expand(count, -1, -1, -1), k], 2)
            v = torch.cat([cache[layer][1].expand(count, -1, -1, -1), v], 2)
        return attention(config, q, k, v, mask)

    x, added = batch.spread(config, tower, weights)
    rotation = three_axis_rotation(config, batch.positions)
    for layer in range(config.layers):
        x = decoder_layer(config, weights, layer, x, rotation, attend)
        if layer < len(added):
            x = x + added[layer]
    return to_logits(config, weights, x if where is None else x[where])
