"""Lays copying with context into random weights: the model copies the token after an earlier place with the same
token, the same two tokens, or the same token and similar words around it. A model finds this by itself only
after many steps, and worst of all for the first letter of an answer, before which every passage has the same
words. Layer 0 writes into dimensions of their own the previous token, the token before that, and the means of
the last ten and of the last thirty or so. Layers 1 and 2 look for places that fit in two of them. Training goes
on from there and may change all of it; every other weight stays random."""

import torch

from ..trunk.laid import CONSTANT, LaidWeights

SIZE = 32
# Number of dimensions that layer 0 writes.
PLACE_SIZE = 24
PLACES = ("previous", "before", "around", "far")
# Pairs of a head's dimensions, the fastest first: the first four distinguish neighbouring places, the next two distinguish places about ten tokens apart, and the
# last hardly turn within a page.
ALL_PAIRS, NEIGHBOUR_PAIRS, AROUND_PAIRS, FAR_PAIRS, SLOW_PAIRS = range(6), range(4), range(3, 5), range(4, 6), range(7, 16)
# Root mean squares of queries and keys, which set the sharpness of a layer's attention.
SHARPNESS = {0: 2.5, 1: 2.0, 2: 2.0}
COPY_STRENGTH = 5.0
# A mean of n vectors is as long as one of them divided by the root of n.
AROUND_STRENGTH, FAR_STRENGTH = 3.0, 5.0


def lay_context(config, weights, seed):
    half, own = SIZE // 2, config.hidden - len(PLACES) * PLACE_SIZE
    dimensions = {name: range(own + i * PLACE_SIZE, own + (i + 1) * PLACE_SIZE) for i, name in enumerate(PLACES)}
    laid = LaidWeights(config, weights, seed, own, SHARPNESS)
    std, part, written = laid.std, laid.part, laid.written
    token = laid.projection()

    def attend_by_place(head, pairs, distance):
        queries = part(0, "q", head)
        queries.zero_()
        for pair in pairs:
            angle = torch.tensor(distance * config.rope_theta ** (-2 * pair / SIZE))
            queries[pair, CONSTANT], queries[pair + half, CONSTANT] = angle.cos(), -angle.sin()

    group = config.heads // config.kv_heads
    attending = [
        (NEIGHBOUR_PAIRS, 1, 1.0),
        (NEIGHBOUR_PAIRS, 2, 1.0),
        (AROUND_PAIRS, 4, AROUND_STRENGTH),
        (FAR_PAIRS, 9, FAR_STRENGTH),
    ]
    for head, (name, (pairs, distance, strength)) in enumerate(zip(PLACES, attending, strict=True)):
        keys = part(0, "k", head // group)
        keys.zero_()
        keys[list(ALL_PAIRS), CONSTANT] = 1
        part(0, "v", head // group).copy_(token)
        attend_by_place(head, pairs, distance)
        written(0, head).zero_()
        written(0, head)[list(dimensions[name])] = strength * std * torch.eye(SIZE)[:PLACE_SIZE]

    # The first head of a pair: the current token is the previous one there, and the token before it, or the tokens around it, are the same too.
    slow = [dimension for pair in SLOW_PAIRS for dimension in (pair, pair + half)]
    first, second = slow[::2], slow[1::2]
    everything = torch.eye(config.hidden)
    for layer, head, wanted, there in [(1, 0, "previous", "before"), (1, 1, "around", "around"), (2, 0, "far", "far")]:
        queries, keys, values = part(layer, "q", head * group), part(layer, "k", head), part(layer, "v", head)
        queries.zero_()
        keys.zero_()
        queries[first] = token[: len(first)]
        keys[first] = everything[list(dimensions["previous"])[: len(first)]]
        queries[second] = everything[list(dimensions[wanted])[: len(second)]]
        keys[second] = everything[list(dimensions[there])[: len(second)]]
        values.copy_(laid.projection())
        written(layer, head * group).copy_(COPY_STRENGTH * std * values.T)
    return weights
