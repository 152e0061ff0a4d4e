"""Forward, backward and Adam steps on base and adapter. Knows nothing of losses or frames."""

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Sequence

import numpy
import torch

import lora
from attention import Layout
from base import Base
from batch import Batch, check_forward, check_gradient
from failure import Failure, bad_input
from head import rows_of_chunk, target_log_probs
from memory_limit import MemoryLimit
from vision import Seen, positions


MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Retained:
    """The outputs of a graph, where backward starts. [M] each."""

    log_probs: torch.Tensor
    entropy: torch.Tensor | None
    tokens: int
    # The decoder's output [N, D], if backward takes the head and the layers one after the other.
    hidden: torch.Tensor | None = None


class Model:
    """One base, one adapter, its accumulated gradient and its Adam state."""

    def __init__(self, base: Base, adapter: lora.Adapter) -> None:
        self.base, self.adapter = base, adapter
        self.device = base.head.weight.device
        self.parameters = adapter.parameters()
        self.retained: dict[str, Retained] = {}
        self.has_gradient = False
        self.steps = 0
        # Number of processes that add up their gradients.
        self.processes = 1
        fused = {"fused": True} if self.device.type == "cuda" else {"foreach": True}
        self.optimizer = torch.optim.AdamW(list(self.parameters.values()), **fused)
        self.counts = {"forward_tokens": 0, "trained_tokens": 0, "forward_seconds": 0.0, "backward_seconds": 0.0}
        # A divided base has the limit within its layers.
        self.limit = None if base.guard else MemoryLimit()

    def forward(self, batch: Batch, retain_as: str | None, use: str, with_entropy: bool) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """Log-probs [M] and entropies [M], float32. `use`: see lora.Switch. With `retain_as` the graph is kept under that id."""
        check_forward(batch, self.base, retain_as, use, self.retained)
        return self.compute(batch, self.see(batch), retain_as, use, with_entropy)

    def see(self, batch: Batch) -> list[Seen]:
        """Runs the base's tower on the batch's pictures."""
        return self.base.vision.see(batch.pictures) if batch.pictures else []

    def compute(
        self, batch: Batch, seen: list[Seen], retain_as: str | None, use: str, with_entropy: bool
    ) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """As forward, for arguments that were checked and pictures that were seen. The batch may have no targets."""
        began = time.perf_counter()
        self.adapter.switch.use = use
        try:
            with torch.set_grad_enabled(retain_as is not None):
                hidden = self._hidden(batch, seen)
                log_probs, entropy = self._log_probs(hidden, batch, with_entropy)
        finally:
            self.adapter.switch.use = "on"
        values = log_probs.detach().cpu().numpy()
        entropies = None if entropy is None else entropy.detach().cpu().numpy()
        if not numpy.isfinite(values).all() or (entropies is not None and not numpy.isfinite(entropies).all()):
            raise Failure("not_finite", "The model returned NaN or an infinity as log-probs or entropies; its weights or its adapter are broken")
        if retain_as is not None:
            self.retained[retain_as] = Retained(log_probs, entropy, len(batch.ids), hidden if self.base.guard else None)
        self.counts["forward_tokens"] += len(batch.ids)
        self.counts["forward_seconds"] += time.perf_counter() - began
        return values, entropies

    def backward(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> None:
        """Adds all or nothing to the accumulated gradient; the batch is dropped either way."""
        held = self._held(batch_id)
        check_gradient(held.log_probs.numel(), held.entropy is not None, d_log_probs, d_entropy)
        self.add(self.gradient(batch_id, d_log_probs, d_entropy))

    def gradient(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> tuple[torch.Tensor, ...]:
        """The batch's gradient by parameter, for arguments that were checked. Drops the batch; the accumulated gradient stays as it is."""
        held = self._held(batch_id)
        outputs, given = self._start(batch_id, d_log_probs, d_entropy)
        return self._walk(held, outputs, given)

    def head_gradient(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> Callable[[], tuple[torch.Tensor, ...]]:
        """As `gradient` for a divided base: the head alone, which needs no other rank. Returns the rest, in which all ranks take part."""
        held = self._held(batch_id)
        outputs, given = self._start(batch_id, d_log_probs, d_entropy)
        d_hidden = torch.autograd.grad(outputs, [held.hidden], given)
        return lambda: self.base.guard.run(lambda: self._walk(held, [held.hidden], d_hidden), "backward")

    def _start(self, batch_id: str, d_log_probs: numpy.ndarray, d_entropy: numpy.ndarray | None) -> tuple[list[Any], list[Any]]:
        """The batch's outputs and their gradients; drops the batch."""
        held = self._held(batch_id)
        # A graph can be walked only once, so the batch is gone even if this fails.
        del self.retained[batch_id]
        if self.limit:
            self.limit.check(held.tokens, self.limit.backward, self.device)
        outputs = [held.log_probs]
        given = [torch.from_numpy(d_log_probs).to(self.device)]
        if held.entropy is not None:
            outputs.append(held.entropy)
            given.append(torch.zeros_like(held.entropy) if d_entropy is None else torch.from_numpy(d_entropy).to(self.device))
        return outputs, given

    def _walk(self, held: Retained, outputs: list[Any], given: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        began = time.perf_counter()
        new = torch.autograd.grad(outputs, list(self.parameters.values()), given, materialize_grads=True)
        self._synchronize()
        self.counts["trained_tokens"] += held.tokens
        self.counts["backward_seconds"] += time.perf_counter() - began
        return new

    def add(self, new: tuple[torch.Tensor, ...] | None) -> None:
        """Adds to the accumulated gradient. None is a gradient of 0."""
        self.has_gradient = True
        if new is None:
            return
        tensors = list(self.parameters.values())
        if tensors[0].grad is not None:
            torch._foreach_add_([tensor.grad for tensor in tensors], new)
            return
        for tensor, gradient in zip(tensors, new):
            tensor.grad = gradient

    def drop(self, batch_id: str) -> None:
        self._held(batch_id)
        del self.retained[batch_id]

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.has_gradient = False

    def optim_step(
        self,
        learning_rate: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        max_norm: float | None,
        agree: Callable[[torch.Tensor], None] = lambda norm: None,
    ) -> tuple[int, float, bool]:
        """Returns step count, norm before clipping, skipped. Drops retained batches, because their graphs used the old weights.
        `agree` replaces the norm by rank 0's, because its last bit depends on the device."""
        if not self.has_gradient:
            raise no_gradient()
        tensors = list(self.parameters.values())
        gradients = [tensor.grad for tensor in tensors]
        norm = torch.nn.utils.get_total_norm(gradients)
        agree(norm)
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

    def moments(self) -> list[torch.Tensor]:
        """Adam's moments, empty before the first step."""
        return [state[name] for parameter in self.parameters.values() if (state := self.optimizer.state.get(parameter)) for name in MOMENTS]

    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(tensor).all()) for tensor in [*self.parameters.values(), *self.moments()])

    def put_moments(self, step: int, of: Callable[[str, str], torch.Tensor]) -> None:
        """Replaces step count and moments by those that `of` returns for a parameter's and a moment's name."""
        self.optimizer.state.clear()
        self.steps = step
        if step == 0:
            return
        for name, parameter in self.parameters.items():
            # The fused kernel on CUDA needs the count on the same device as the weights.
            place = parameter.device if parameter.device.type == "cuda" else torch.device("cpu")
            moments = {moment: of(name, moment).to(parameter.device).clone() for moment in MOMENTS}
            self.optimizer.state[parameter] = {"step": torch.tensor(float(step), dtype=torch.float32, device=place), **moments}

    def forget(self) -> None:
        """Drops gradient and graphs after the weights were replaced."""
        self.retained.clear()
        self.zero_grad()

    def stats(self) -> dict[str, Any]:
        """Tokens and seconds since the start, peak memory in bytes (null if torch does not count it)."""
        peak = torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None
        passes = self.base.vision.passes if self.base.vision else 0
        return {**self.counts, "tower_passes": passes, "peak_memory_bytes": peak, "retained": len(self.retained), "steps": self.steps}

    def _hidden(self, batch: Batch, seen: list[Seen]) -> torch.Tensor:
        """[N, D]"""
        # The embedding runs inside the guard: if it failed outside, the other ranks would wait in the first layer.
        call = partial(self._decode, batch, seen)
        out = self.base.guard.run(call, "forward") if self.base.guard else call()
        if self.limit:
            self.limit.check(len(batch.ids), self.limit.forward, self.device)
        return out.last_hidden_state[0]

    def _decode(self, batch: Batch, seen: list[Seen]) -> Any:
        if self.base.guard:
            self.base.guard.limit.check(len(batch.ids), self.base.guard.limit.embedding, self.device)
        bounds = tuple(int(x) for x in batch.offsets)
        lengths = numpy.diff(batch.offsets)
        layout = Layout(bounds, torch.from_numpy(batch.offsets).to(self.device), int(lengths.max()), self.base.kernel)
        ids = torch.from_numpy(batch.ids.astype(numpy.int64)).to(self.device)
        vision = self.base.vision
        if vision is None:
            # Positions restart at 0 in each sequence.
            places = (numpy.arange(len(batch.ids)) - numpy.repeat(batch.offsets[:-1], lengths))[None]
            inputs = {"input_ids": ids[None]}
        else:
            places = positions(batch.offsets, batch.pictures, seen)[:, None]
            inputs = vision.inputs(self.base.decoder.get_input_embeddings(), ids, batch.pictures, seen)
        return self.base.decoder(**inputs, position_ids=torch.from_numpy(places).to(self.device), use_cache=False, layout=layout)

    def _log_probs(self, hidden: torch.Tensor, batch: Batch, with_entropy: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        wanted = torch.from_numpy(batch.wanted.astype(numpy.int64)).to(self.device)
        places = torch.from_numpy(batch.targets.astype(numpy.int64)).to(self.device)
        head = self.base.head
        # The state at t - 1 predicts the token at t.
        chosen = hidden.index_select(0, places - 1)
        rows = rows_of_chunk(self.base.vocabulary, self.device)
        return target_log_probs(chosen, head.weight, head.bias, wanted, batch.temperature, with_entropy, rows)

    def _held(self, batch_id: str) -> Retained:
        held = self.retained.get(batch_id)
        if held is None:
            raise not_retained(batch_id)
        return held

    def _synchronize(self) -> None:
        """Makes a device error surface here, before the gradient is touched."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def no_gradient() -> Failure:
    return bad_input("The Adam step needs an accumulated gradient; call backward first")


def not_retained(batch_id: str) -> Failure:
    return bad_input(f"Batch {batch_id} is not retained; it never was, or a backward, a drop, a step or a load has released it")
