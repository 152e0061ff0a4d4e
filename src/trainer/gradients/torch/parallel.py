"""A model on several ranks: each computes whole sequences of a batch with its own copy of the adapter; gradients are added up before an Adam step.

The same calls as Model. Every rank runs every call with the whole batch, so a check of the arguments fails on all ranks or on none.
"""

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from failure import Failure
from batch import Batch, check_forward, check_gradient
from model import Model, no_gradient, not_retained
from ranks import Ranks


@dataclass(frozen=True)
class Part:
    """The sequences of one rank. `batch` is None if it has none and need not compute; `places` are its targets' places among all targets."""

    batch: Batch | None
    places: numpy.ndarray
    targets: int
    with_entropy: bool


class ParallelModel:
    def __init__(self, model: Model, ranks: Ranks) -> None:
        self.model, self.ranks = model, ranks
        model.processes = ranks.size
        self.parts: dict[str, Part] = {}

    def forward(self, batch: Batch, retain_as: str | None, use: str, with_entropy: bool) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """On rank 0 as Model.forward; on others the values have no meaning."""
        check_forward(batch, self.model.base, retain_as, use, self.parts)
        part = part_of(batch, self.ranks.rank, self.ranks.size, with_entropy)
        if part.batch is None and self.model.base.guard:
            # Without a target, only to take part in gathering the layers.
            one = Batch(batch.ids[:1], numpy.array([0, 1], numpy.int32), batch.targets[:0], batch.temperature)
            part = replace(part, batch=one)

        # Before the layers, where ranks wait for each other: a picture that one of them lacks must stop them all.
        seen = self.ranks.together(lambda: self.model.see(part.batch) if part.batch else []) if batch.pictures else []

        def compute() -> Any:
            return (numpy.empty(0, numpy.float32), None) if part.batch is None else self.model.compute(part.batch, seen, retain_as, use, with_entropy)

        try:
            log_probs, entropy = self.ranks.together(compute)
        except Failure:
            self.model.retained.pop(retain_as or "", None)
            raise
        if retain_as is not None:
            self.parts[retain_as] = part
        # Each target is filled by one rank, and adding zeros to a float is exact.
        values = numpy.zeros((2 if with_entropy else 1, part.targets), numpy.float32)
        values[0, part.places] = log_probs
        if entropy is not None:
            values[1, part.places] = entropy
        values = self.ranks.collect(values)
        return values[0], values[1] if with_entropy else None

    def backward(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> None:
        part = self._part(batch_id)
        check_gradient(part.targets, part.with_entropy, d_log_probs, d_entropy)
        del self.parts[batch_id]

        def compute() -> Any:
            if part.batch is None:
                return None
            act = self.model.head_gradient if self.model.base.guard else self.model.gradient
            return act(batch_id, d_log_probs[part.places], None if d_entropy is None else d_entropy[part.places])

        try:
            new = self.ranks.together(compute)
            if self.model.base.guard:
                new = self.ranks.together(new)
        except Failure:
            self.model.retained.pop(batch_id, None)
            raise
        self.ranks.or_end(lambda: self.model.add(new), "backward")

    def drop(self, batch_id: str) -> None:
        self._part(batch_id)
        del self.parts[batch_id]
        self.model.retained.pop(batch_id, None)

    def zero_grad(self) -> None:
        self.model.zero_grad()

    def optim_step(self, learning_rate: float, betas: tuple[float, float], eps: float, weight_decay: float, max_norm: float | None) -> tuple[int, float, bool]:
        """The gradients of all ranks have the same bits once they are added up, so every rank takes the same step."""
        if not self.model.has_gradient:
            raise no_gradient()
        tensors = list(self.model.parameters.values())

        def flatten() -> torch.Tensor:
            return torch.cat([(torch.zeros_like(t) if t.grad is None else t.grad).reshape(-1) for t in tensors])

        flat = self.ranks.together(flatten)
        self.ranks.add_up(flat)
        for tensor, gradient in zip(tensors, flat.split([t.numel() for t in tensors])):
            tensor.grad = gradient.view_as(tensor)
        agree = lambda norm: self.ranks.spread([norm])  # noqa: E731
        result = self.ranks.or_end(lambda: self.model.optim_step(learning_rate, betas, eps, weight_decay, max_norm, agree), "optim_step")
        if not result[2]:
            self.parts.clear()
        return result

    def replaced(self) -> None:
        """After rank 0 replaced adapter and Adam state: gives them to the others, and drops gradient and graphs."""
        self.parts.clear()
        steps = int(self.ranks.gather(torch.tensor([self.model.steps]))[0])

        def follow() -> None:
            if self.ranks.rank != 0:
                self.model.forget()
                self.model.put_moments(steps, lambda name, _: self.model.parameters[name].detach())

        self.ranks.together(follow)
        self.ranks.spread([tensor.data for tensor in self.model.parameters.values()] + self.model.moments())

    def stats(self) -> dict[str, Any]:
        own = self.model.stats()
        peak = own["peak_memory_bytes"]
        names = ("forward_tokens", "trained_tokens", "tower_passes")
        numbers = torch.tensor([*(own[name] for name in names), -1 if peak is None else peak], dtype=torch.float64)
        found = torch.stack(self.ranks.gather(numbers))
        counts = {name: int(found[:, i].sum()) for i, name in enumerate(names)}
        return {**own, **counts, "peak_memory_bytes": None if peak is None else int(found[:, -1].max()), "retained": len(self.parts)}

    def _part(self, batch_id: str) -> Part:
        part = self.parts.get(batch_id)
        if part is None:
            raise not_retained(batch_id)
        return part


def part_of(batch: Batch, rank: int, size: int, with_entropy: bool) -> Part:
    """The sequences of this rank, in the batch's order."""
    offsets, targets = batch.offsets, batch.targets
    lengths = numpy.diff(offsets)
    mine = divide(lengths.tolist(), size)[rank]
    if not mine:
        return Part(None, numpy.empty(0, numpy.int64), len(targets), with_entropy)
    sequence_of = numpy.searchsorted(offsets, targets, side="right") - 1
    places = numpy.flatnonzero(numpy.isin(sequence_of, mine))
    starts = numpy.concatenate([[0], numpy.cumsum(lengths[mine])]).astype(numpy.int32)
    # The number of places by which each sequence moves to the left.
    shift = numpy.zeros(len(lengths), numpy.int32)
    shift[mine] = offsets[:-1][mine] - starts[:-1]
    ids = numpy.concatenate([batch.ids[offsets[i] : offsets[i + 1]] for i in mine])
    sequences = {sequence: i for i, sequence in enumerate(mine)}
    pictures = (
        replace(picture, sequence=sequences[picture.sequence], offset=picture.offset - int(shift[picture.sequence]))
        for picture in batch.pictures
        if picture.sequence in sequences
    )
    wanted = None if batch.target_ids is None else batch.target_ids[places]
    part = Batch(ids, starts, targets[places] - shift[sequence_of[places]], batch.temperature, tuple(pictures), wanted)
    return Part(part, places, len(targets), with_entropy)


def divide(lengths: list[int], size: int) -> list[list[int]]:
    """Whole sequences to ranks, balanced by tokens: the longest first, each to the rank with the fewest tokens. Same on every rank."""
    held = [(0, rank) for rank in range(size)]
    members: list[list[int]] = [[] for _ in range(size)]
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        tokens, rank = heapq.heappop(held)
        members[rank].append(i)
        heapq.heappush(held, (tokens + lengths[i], rank))
    return [sorted(part) for part in members]
