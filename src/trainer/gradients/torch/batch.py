"""A packed batch, and the checks of what a call brings, before anything is computed."""

import math
from dataclasses import dataclass
from typing import Container

import numpy

from base import Base
from failure import bad_input
from pictures import PlacedPicture


@dataclass(frozen=True)
class Batch:
    """Packed sequences. ids [N], offsets [B + 1], targets [M], all int32 on the host; see PackedBatch in gradient-backend.ts."""

    ids: numpy.ndarray
    offsets: numpy.ndarray
    targets: numpy.ndarray
    temperature: float
    # In order of their places.
    pictures: tuple[PlacedPicture, ...] = ()
    # [M] int32, in place of the ids at the targets.
    target_ids: numpy.ndarray | None = None

    @property
    def wanted(self) -> numpy.ndarray:
        """[M], the ids whose log-probs are wanted."""
        return self.ids[self.targets] if self.target_ids is None else self.target_ids


def check_forward(batch: Batch, base: Base, retain_as: str | None, use: str, retained: Container[str]) -> None:
    check_batch(batch, base.vocabulary)
    if batch.pictures and base.vision is None:
        raise bad_input("This base reads text only, but the batch holds images; train a vision-language base, or play the environment without images")
    if base.vision is not None:
        base.vision.check(batch.pictures, batch.ids, batch.offsets)
    if use not in ("on", "off", "initial"):
        raise bad_input(f"adapter must be on, off or initial, got {use}")
    if retain_as is not None and use != "on":
        raise bad_input(f"A batch with adapter {use} has no gradient and cannot be retained; use adapter on")
    if retain_as is not None and retain_as in retained:
        raise bad_input(f"Batch {retain_as} is already retained; use a new batch id")


def check_gradient(targets: int, with_entropy: bool, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> None:
    for name, gradient in (("dLogProbs", d_log_probs), ("dEntropy", d_entropy)):
        if gradient is None:
            continue
        if gradient.shape != (targets,):
            raise bad_input(f"Expected {targets} numbers in {name}, one per target, got {gradient.size}")
        if not numpy.isfinite(gradient).all():
            raise bad_input(f"{name} holds NaN or an infinity; check the loss")
    if d_entropy is not None and not with_entropy:
        raise bad_input("dEntropy was passed for a batch whose forward returned no entropies; request them in forward")


def check_batch(batch: Batch, vocabulary: int) -> None:
    """Enforces the contract of PackedBatch; a wrong index on a GPU would end the process."""
    ids, offsets, targets = batch.ids, batch.offsets, batch.targets
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(ids) or (numpy.diff(offsets) < 1).any():
        raise bad_input(f"offsets must rise from 0 to the number of ids, {len(ids)}, got {offsets[:8].tolist()}{'...' if len(offsets) > 8 else ''}")
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise bad_input(f"Token ids must be 0 to {vocabulary - 1}, got {ids.min()} to {ids.max()}; does the tokenizer belong to another model?")
    wanted = batch.target_ids
    if wanted is not None and (wanted.shape != targets.shape or wanted.min(initial=0) < 0 or wanted.max(initial=0) >= vocabulary):
        raise bad_input(f"target_ids must be {len(targets)} token ids, one per target, from 0 to {vocabulary - 1}")
    if len(targets) < 1 or targets[0] < 1 or targets[-1] >= len(ids) or (numpy.diff(targets) < 1).any():
        raise bad_input(f"targets must be ascending indices into the {len(ids)} ids, at least one, got {targets[:8].tolist()}")
    first = numpy.isin(targets, offsets)
    if first.any():
        raise bad_input(f"Target {int(targets[first][0])} is the first token of a sequence, which nothing predicts")
    if not (math.isfinite(batch.temperature) and batch.temperature > 0):
        raise bad_input(f"temperature must be above 0, got {batch.temperature}")
