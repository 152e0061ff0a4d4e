"""Base and adapter at work: batches forward, gradients backward, steps of Adam. Knows no loss and no bytes."""

import math
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy
import torch

import lora
from attention import Layout
from base import Base
from failure import Failure, bad_input
from head import rows_of_chunk, target_log_probs


@dataclass(frozen=True)
class Batch:
    """Packed sequences. ids [N], offsets [B + 1], targets [M], all int32 of the host; see PackedBatch in gradient-backend.ts."""

    ids: numpy.ndarray
    offsets: numpy.ndarray
    targets: numpy.ndarray
    temperature: float


@dataclass(frozen=True)
class Retained:
    """The ends of a graph that backward starts from. [M] each."""

    log_probs: torch.Tensor
    entropy: torch.Tensor | None
    tokens: int


class Model:
    """One base, one adapter, its accumulated gradient and its Adam state."""

    def __init__(self, base: Base, adapter: lora.Adapter) -> None:
        self.base, self.adapter = base, adapter
        self.device = base.head.weight.device
        self.parameters = adapter.parameters()
        self.retained: dict[str, Retained] = {}
        self.has_gradient = False
        self.steps = 0
        fused = {"fused": True} if self.device.type == "cuda" else {"foreach": True}
        self.optimizer = torch.optim.AdamW(list(self.parameters.values()), **fused)
        self.counts = {"forward_tokens": 0, "trained_tokens": 0, "forward_seconds": 0.0, "backward_seconds": 0.0}
        self.memory_limits = _memory_limits()

    def forward(self, batch: Batch, retain_as: str | None, use: str, with_entropy: bool) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """Log-probs [M] and entropies [M], float32. `use`: of the adapter, see lora.Switch. With `retain_as` the graph is kept under that id."""
        check_batch(batch, self.base.vocabulary)
        if use not in ("on", "off", "initial"):
            raise bad_input(f"Expected adapter on, off or initial, got {use}")
        if retain_as is not None and use != "on":
            raise bad_input(f"Expected adapter on for a retained batch, got {use}: what is frozen has no gradient")
        if retain_as is not None and retain_as in self.retained:
            raise bad_input(f"Expected a new batch id, {retain_as} is retained already")
        began = time.perf_counter()
        self.adapter.switch.use = use
        try:
            with torch.set_grad_enabled(retain_as is not None):
                log_probs, entropy = self._log_probs(batch, with_entropy)
        finally:
            self.adapter.switch.use = "on"
        values = log_probs.detach().cpu().numpy()
        entropies = None if entropy is None else entropy.detach().cpu().numpy()
        if not numpy.isfinite(values).all() or (entropies is not None and not numpy.isfinite(entropies).all()):
            raise Failure("not_finite", "Expected finite log-probs, the model gave NaN or an infinity; its weights or its adapter are broken")
        if retain_as is not None:
            self.retained[retain_as] = Retained(log_probs, entropy, len(batch.ids))
        self.counts["forward_tokens"] += len(batch.ids)
        self.counts["forward_seconds"] += time.perf_counter() - began
        return values, entropies

    def backward(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> None:
        """Adds to the accumulated gradient all or nothing; the batch is forgotten either way."""
        held = self._held(batch_id)
        for name, gradient in (("dLogProbs", d_log_probs), ("dEntropy", d_entropy)):
            if gradient is None:
                continue
            if gradient.shape != held.log_probs.shape:
                raise bad_input(f"Expected {held.log_probs.numel()} numbers in {name}, one for each target, got {gradient.size}")
            if not numpy.isfinite(gradient).all():
                raise bad_input(f"Expected finite numbers in {name}, got NaN or an infinity; look at the loss")
        if d_entropy is not None and held.entropy is None:
            raise bad_input("Expected dEntropy only for a batch whose forward gave entropies; ask for them")
        began = time.perf_counter()
        # A graph can be walked once: whatever comes of it, the batch is gone.
        del self.retained[batch_id]
        self._fail_beyond(held.tokens, self.memory_limits[1])
        outputs = [held.log_probs]
        given = [torch.from_numpy(d_log_probs).to(self.device)]
        if held.entropy is not None:
            outputs.append(held.entropy)
            given.append(torch.zeros_like(held.entropy) if d_entropy is None else torch.from_numpy(d_entropy).to(self.device))
        tensors = list(self.parameters.values())
        new = torch.autograd.grad(outputs, tensors, given, materialize_grads=True)
        self._synchronize()
        if self.has_gradient:
            torch._foreach_add_([tensor.grad for tensor in tensors], new)
        else:
            for tensor, gradient in zip(tensors, new):
                tensor.grad = gradient
        self.has_gradient = True
        self.counts["trained_tokens"] += held.tokens
        self.counts["backward_seconds"] += time.perf_counter() - began

    def drop(self, batch_id: str) -> None:
        self._held(batch_id)
        del self.retained[batch_id]

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.has_gradient = False

    def optim_step(self, learning_rate: float, betas: tuple[float, float], eps: float, weight_decay: float, max_norm: float | None) -> tuple[int, float, bool]:
        """Step count, norm before clipping, skipped. Retained batches are dropped: their graphs were made of the weights before."""
        if not self.has_gradient:
            raise bad_input("Expected an accumulated gradient for a step of Adam, there is none; call backward first")
        tensors = list(self.parameters.values())
        gradients = [tensor.grad for tensor in tensors]
        norm = torch.nn.utils.get_total_norm(gradients)
        total = float(norm)
        skipped = not math.isfinite(total)
        if not skipped:
            if max_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(tensors, max_norm, norm)
            for group in self.optimizer.param_groups:
                group.update(lr=learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)
            self.optimizer.step()
            self.steps += 1
            self.retained.clear()
        self.zero_grad()
        return self.steps, total, skipped

    def forget(self) -> None:
        """Gradient and graphs, after weights were replaced."""
        self.retained.clear()
        self.zero_grad()

    def stats(self) -> dict[str, Any]:
        """Tokens and seconds since the start, peak memory in bytes (null where torch does not count it)."""
        peak = torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None
        return {**self.counts, "peak_memory_bytes": peak, "retained": len(self.retained), "steps": self.steps}

    def _log_probs(self, batch: Batch, with_entropy: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        bounds = tuple(int(x) for x in batch.offsets)
        lengths = numpy.diff(batch.offsets)
        layout = Layout(bounds, torch.from_numpy(batch.offsets).to(self.device), int(lengths.max()), self.base.kernel)
        # Positions begin anew with each sequence.
        positions = torch.from_numpy(numpy.arange(len(batch.ids)) - numpy.repeat(batch.offsets[:-1], lengths)).to(self.device)
        ids = torch.from_numpy(batch.ids.astype(numpy.int64)).to(self.device)
        hidden = self.base.decoder(input_ids=ids[None], position_ids=positions[None], use_cache=False, layout=layout).last_hidden_state[0]
        self._fail_beyond(len(batch.ids), self.memory_limits[0])
        places = torch.from_numpy(batch.targets.astype(numpy.int64)).to(self.device)
        head = self.base.head
        # The state at t - 1 predicts the token at t.
        chosen = hidden.index_select(0, places - 1)
        rows = rows_of_chunk(self.base.vocabulary, self.device)
        return target_log_probs(chosen, head.weight, head.bias, ids.index_select(0, places), batch.temperature, with_entropy, rows)

    def _held(self, batch_id: str) -> Retained:
        held = self.retained.get(batch_id)
        if held is None:
            raise bad_input(f"Expected the id of a retained batch, got {batch_id}; it was never retained, or is used up by backward, drop, a step or a load")
        return held

    def _synchronize(self) -> None:
        """So that an error of the device comes up here and not after the gradient was touched."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _fail_beyond(self, tokens: int, limit: float) -> None:
        """Asks for more memory than any machine has, so that the allocator itself refuses."""
        if tokens > limit:
            torch.empty(1 << 60, dtype=torch.uint8, device=self.device)


def check_batch(batch: Batch, vocabulary: int) -> None:
    """Refuses whatever is not as PackedBatch says; a wrong index on a GPU would end the process."""
    ids, offsets, targets = batch.ids, batch.offsets, batch.targets
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(ids) or (numpy.diff(offsets) < 1).any():
        raise bad_input(f"Expected offsets that rise from 0 to the {len(ids)} ids, got {offsets[:8].tolist()}{'...' if len(offsets) > 8 else ''}")
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise bad_input(f"Expected ids from 0 to {vocabulary - 1}, got {ids.min()} to {ids.max()}; is the tokenizer another model's?")
    if len(targets) < 1 or targets[0] < 1 or targets[-1] >= len(ids) or (numpy.diff(targets) < 1).any():
        raise bad_input(f"Expected at least one target, ascending, each within the {len(ids)} ids, got {targets[:8].tolist()}")
    first = numpy.isin(targets, offsets)
    if first.any():
        raise bad_input(f"Expected no target at the first token of a sequence, which nothing predicts, got {int(targets[first][0])}")
    if not (math.isfinite(batch.temperature) and batch.temperature > 0):
        raise bad_input(f"Expected a temperature above 0, got {batch.temperature}")


def _memory_limits() -> tuple[float, float]:
    """A test aid: VF_TORCH_MEMORY_LIMIT_TOKENS=FORWARD or FORWARD,BACKWARD makes longer batches run out of memory for real."""
    given = [part for part in os.environ.get("VF_TORCH_MEMORY_LIMIT_TOKENS", "").split(",") if part]
    limits = [float(part) for part in given]
    return (limits[0] if limits else math.inf, limits[1] if len(limits) > 1 else math.inf)
