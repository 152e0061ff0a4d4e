"""Does the worker survive running out of memory in the middle of a step?

The trainer halves its micro-batches after such a failure, so the gradient accumulated before it must be whole, the memory of the failed call free, and what follows
in smaller batches as if nothing had happened. On a GPU the allocator really fails, under a cap on the process's share; on any device a failure is also raised
inside a layer, forward and backward.
"""

import gc
import weakref
from typing import Any, Callable, Iterator

import torch

import bench
from bench import Refused, Row, Setting, Worker, difference, judged

LAYERS = 8
# Sequences of a micro-batch that fits; the one that does not has all of them.
PARTS = 4
# Bytes that may stay after a failure: workspaces of libraries that were used for the first time.
LEFT_BYTES = 64 << 20


def check_recovery(setting: Setting, shape: str) -> Iterator[Row]:
    worker, config = bench.deterministic_worker(setting, shape, LAYERS)
    batch = bench.make_batch(config["vocab_size"], [1024 if setting.is_cuda else 48] * 4 * PARTS)
    quarters = grouped(batch)
    wanted = undisturbed(worker, quarters)
    noise = difference(undisturbed(worker, quarters), wanted)
    bound = 2 * noise + 1e-6
    for way in ("forward", "backward"):
        yield from disturbed(worker, batch, quarters, wanted, bound, f"a failure inside a layer, {way}", lambda: raising(worker, way))
    if setting.is_cuda:
        cap = fraction(worker, batch, quarters)
        yield from disturbed(worker, batch, quarters, wanted, bound, f"a cap of {cap:.3f} of the GPU", lambda: capped(cap))


def grouped(batch: Any) -> list[tuple[Any, Any]]:
    """The batch as PARTS batches of whole sequences, each with its part of the loss's gradient."""
    import numpy
    from batch import Batch

    given, found = bench.gradient_of_loss(batch), []
    for sequences in numpy.array_split(numpy.arange(len(batch.offsets) - 1), PARTS):
        start, end = int(batch.offsets[sequences[0]]), int(batch.offsets[sequences[-1] + 1])
        inside = (batch.targets >= start) & (batch.targets < end)
        offsets = (batch.offsets[sequences[0] : sequences[-1] + 2] - start).astype(numpy.int32)
        part = Batch(batch.ids[start:end], offsets, (batch.targets[inside] - start).astype(numpy.int32), batch.temperature)
        found.append((part, given[inside]))
    return found


def undisturbed(worker: Worker, quarters: list[tuple[Any, Any]]) -> dict[str, torch.Tensor]:
    """The gradient of all parts, and nothing accumulated afterwards."""
    for part, given in quarters:
        worker.forward(part)
        worker.backward(given)
    gradients = worker.gradients()
    worker("zero_grad")
    return gradients


def disturbed(
    worker: Worker, batch: Any, quarters: list[tuple[Any, Any]], wanted: dict[str, torch.Tensor], bound: float, case: str, failing: Callable[[], Any]
) -> Iterator[Row]:
    """A part, then the whole batch, which fails, then the other parts."""
    (first, given), *others = quarters
    worker.forward(first)
    worker.backward(given)
    held = allocated(worker)
    code, where = "no failure", "forward"
    with failing() as trace:
        try:
            worker.forward(batch)
            where = "backward"
            worker.backward(bench.gradient_of_loss(batch))
        except Refused as refused:
            code = refused.code
        gc.collect()
        yield Row(f"{case}: the worker says", "passed" if code == "out_of_memory" else "failed", text=f"{code} in {where}")
        yield judged(f"{case}: memory left behind", allocated(worker) - held, LEFT_BYTES, "bytes")
        if trace is not None:
            yield judged(f"{case}: tensors of the failed layer left behind", sum(each() is not None for each in trace), 0, "tensors")
        if trace is None:
            # Still under the cap.
            finish(worker, others)
    if trace is not None:
        finish(worker, others)
    gradients = worker.gradients()
    worker("zero_grad")
    yield judged(f"{case}: the gradient in smaller batches", difference(gradients, wanted), bound, "relative to that without the failure; twice its repetition")


def finish(worker: Worker, others: list[tuple[Any, Any]]) -> None:
    for part, given in others:
        worker.forward(part)
        worker.backward(given)


def allocated(worker: Worker) -> int:
    return torch.cuda.memory_allocated(worker.calls.device) if worker.calls.device.type == "cuda" else 0


class raising:
    """Makes the middle layer run out of memory once, as the allocator of a GPU reports it. Its value: references to the tensors that the layer had."""

    def __init__(self, worker: Worker, way: str) -> None:
        layers = worker.calls.base.decoder.layers
        self.layer, self.way, self.seen = layers[len(layers) // 2], way, []

    def __enter__(self) -> list[Any]:
        self.handle = self.layer.register_forward_hook(self._hook)
        return self.seen

    def __exit__(self, *_: Any) -> None:
        self.handle.remove()

    def _hook(self, module: Any, inputs: Any, output: Any) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        self.seen.append(weakref.ref(tensor))
        if self.way == "forward":
            raise torch.OutOfMemoryError("CUDA out of memory (raised by gpu-check)")
        tensor.register_hook(_fail)


def _fail(gradient: torch.Tensor) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory (raised by gpu-check)")


class capped:
    """A cap on this process's share of the GPU. Its value is None: the allocator's failure leaves no references to count."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __enter__(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(self.share)

    def __exit__(self, *_: Any) -> None:
        torch.cuda.set_per_process_memory_fraction(1.0)


def fraction(worker: Worker, batch: Any, quarters: list[tuple[Any, Any]]) -> float:
    """A share of the GPU in which a part fits and the whole batch does not: halfway between what the two reserve."""
    peaks = []
    for tried, given in (quarters[0], (batch, bench.gradient_of_loss(batch))):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        worker.forward(tried)
        worker.backward(given)
        peaks.append(torch.cuda.max_memory_reserved())
    worker("zero_grad")
    return sum(peaks) / 2 / torch.cuda.get_device_properties(worker.calls.device).total_memory
