"""Turns sequences of texts and pictures into ids, and many of them into a batch."""

import torch

from ..trunk.training import pad
from .texts import IMAGE_PAD, PAD, VISION_END, VISION_START
from .vlm import UNIT, make_batch


class Encoder:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.known = {}
        self.start, self.end, self.image, self.pad = map(tokenizer.token_to_id, (VISION_START, VISION_END, IMAGE_PAD, PAD))

    def text(self, text):
        if text not in self.known:
            self.known[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.known[text]

    def picture(self, picture):
        return [self.start, *[self.image] * (picture.shape[0] * picture.shape[1] // UNIT**2), self.end]

    def sequence(self, parts):
        """(ids, pictures, weights) of (text or picture, weight) each."""
        ids, pictures, weights = [], [], []
        for content, weight in parts:
            if isinstance(content, str):
                piece = self.text(content)
            else:
                pictures.append(content)
                piece = self.picture(content)
            ids += piece
            weights += [weight] * len(piece)
        return ids, pictures, weights

    def batch(self, sequences, start=0):
        """(VlmBatch, weights [B, T]) of results of `sequence`."""
        rows = [(ids, pictures) for ids, pictures, _ in sequences]
        weights = pad([one for *_, one in sequences], torch.float32)
        return make_batch(rows, self.image, self.pad, [start] * len(rows)), weights
