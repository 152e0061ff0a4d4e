"""Samples with a key-value cache whose rows share a prefix and have different lengths."""

import torch
import torch.nn.functional as F

from .model import EMBEDDING, attention, decoder_layer, prefix_cache, rotary, to_logits


class Sampler:
    """`count` rows of at most `capacity` tokens, including the prefix. Use under torch.no_grad()."""

    def __init__(self, config, weights, count, prefix, capacity=768):
        self.config = config
        self.weights = weights
        self.lengths = torch.full((count,), len(prefix))
        shape = (count, config.kv_heads, capacity, config.head_dim)
        self.keys = [torch.zeros(shape) for _ in range(config.layers)]
        self.values = [torch.zeros(shape) for _ in range(config.layers)]
        for layer, (k, v) in enumerate(prefix_cache(config, weights, prefix)):
            self.keys[layer][:, :, : len(prefix)] = k
            self.values[layer][:, :, : len(prefix)] = v

    def feed(self, rows, chunks):
        """Appends a chunk of ids to each of the rows; returns log-probs [rows, V] of the next tokens."""
        row = torch.tensor(rows)
        sizes = torch.tensor([len(chunk) for chunk in chunks])
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(chunk) for chunk in chunks], batch_first=True)
        positions = self.lengths[row][:, None] + torch.arange(ids.shape[1])
        end = int(positions.max()) + 1
        mask = (torch.arange(end) <= positions[:, :, None])[:, None]

        def attend(layer, q, k, v):
            self.keys[layer][row[:, None], :, positions] = k.transpose(1, 2)
            self.values[layer][row[:, None], :, positions] = v.transpose(1, 2)
            return attention(self.config, q, self.keys[layer][row, :, :end], self.values[layer][row, :, :end], mask)

        x = F.embedding(ids, self.weights[EMBEDDING])
        rotation = rotary(self.config, positions)
        for layer in range(self.config.layers):
            x = decoder_layer(self.config, self.weights, layer, x, rotation, attend)
        self.lengths[row] += sizes
        return to_logits(self.config, self.weights, x[torch.arange(len(rows)), sizes - 1]).log_softmax(-1)

    def sample_turn(self, rows, chunks, *, stop, max_tokens, temperature, generator):
        """Feeds the chunks, then samples every row until a stop id or the limit: {row: (ids, log-probs)}, including stop ids.

        A row's last sampled token is not in the cache yet: the next chunk must start with it or its replacement.
        Temperature 0 is greedy; log-probs are at temperature 1.
        """
        turns = {row: ([], []) for row in rows}
        log_probs = self.feed(rows, chunks)
        active = list(rows)
        while active:
            if temperature == 0:
                chosen = log_probs.argmax(-1)
            else:
                chosen = torch.multinomial((log_probs / temperature).softmax(-1), 1, generator=generator)[:, 0]
            values = log_probs.gather(1, chosen[:, None])[:, 0].tolist()
            following = []
            for row, token, value in zip(active, chosen.tolist(), values, strict=True):
                turns[row][0].append(token)
                turns[row][1].append(value)
                if token not in stop and len(turns[row][0]) < max_tokens:
                    following.append(row)
            active = following
            if active:
                log_probs = self.feed(active, [[turns[row][0][-1]] for row in active])
        return turns
