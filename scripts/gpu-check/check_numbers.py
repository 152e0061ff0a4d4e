"""Are the worker's log-probs and gradients right on this device?

The measure is float64 on the CPU (reference.py). The tolerance is not a constant: transformers' own model in the same type on the same device, with the same
weights and adapter, is measured in the same way, and the worker may be off by twice that, plus FLOOR for a yardstick that happens to be exact.
"""

from pathlib import Path
from typing import Any, Iterator

import numpy
import torch

import bench
from bench import Row, Setting, Worker, difference, judged
from plain import add_lora, load_plain, solve_plain
from reference import Reference

FLOOR = 1e-6
TIMES = 2.0
# Layers of the model: the errors of more add up in the yardstick too, but float64 on a CPU takes its time.
LAYERS = 2
# Tokens; unequal, one longer than a tile of attention's kernels, one of the fewest tokens that have a target.
LENGTHS = [37, 130, 2, 61]
# Another temperature than 1, so that a forgotten one shows.
TEMPERATURE = 0.8
# Rows of logits at once; 7 does not divide the number of targets.
CHUNKS = (7, 64, 1 << 20)


class Numbers:
    """One shape in one type: the yardstick's errors, and the worker's outputs for any way of calling it."""

    def __init__(self, setting: Setting, folder: Path, dtype: str, batch: Any) -> None:
        self.setting, self.folder, self.dtype, self.batch = setting, folder, dtype, batch
        self.given = (bench.gradient_of_loss(batch, 1), bench.gradient_of_loss(batch, 2))

    def worker(self, **options: Any) -> Worker:
        return Worker(self.setting, self.folder, dtype=self.dtype, **options)

    def run(self, worker: Worker, batches: list[tuple[Any, slice]] | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Log-probs and gradient, with the whole batch at once or the batches one after the other."""
        parts = []
        for batch, places in batches or [(self.batch, slice(None))]:
            parts.append(torch.from_numpy(worker.forward(batch, entropy=True)["log_probs"]).double())
            worker.backward(*(each[places] for each in self.given))
        gradients = worker.gradients()
        worker("zero_grad")
        return torch.cat(parts), gradients

    def measure_plain(self, adapter: dict[str, torch.Tensor], wanted: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> None:
        """Sets the bounds."""
        model = load_plain(self.folder, self.setting.device, self.dtype)
        parameters = add_lora(model, self.setting.plan["targets"], self.setting.plan["rank"], 2.0)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(adapter[name])
        log_probs, gradients = solve_plain(model, parameters, self.batch, *self.given)
        self.log_prob_bound = TIMES * rms(log_probs - wanted[0]) + FLOOR
        self.gradient_bound = TIMES * difference(gradients, wanted[1]) + FLOOR

    def compare(self, case: str, found: tuple[torch.Tensor, dict[str, torch.Tensor]], wanted: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> Iterator[Row]:
        name = f"{case} {self.dtype}"
        yield judged(f"{name}, log-probs", rms(found[0] - wanted[0]), self.log_prob_bound, "root mean square, nats")
        yield judged(f"{name}, gradient", difference(found[1], wanted[1]), self.gradient_bound, "relative")


def rms(tensor: torch.Tensor) -> float:
    return float(tensor.square().mean().sqrt())


def check_numbers(setting: Setting, shape: str) -> Iterator[Row]:
    config = setting.config(shape, LAYERS)
    folder = bench.write_model(setting.folder / shape, config, setting.device)
    batch = bench.make_batch(config["vocab_size"], LENGTHS, TEMPERATURE)
    wanted: Any = None
    for dtype in setting.dtypes():
        numbers = Numbers(setting, folder, dtype, batch)
        worker = numbers.worker()
        if wanted is None:
            # The base's weights are bfloat16 in the file, so that both types have the same.
            adapter = {name: parameter.detach().cpu().clone() for name, parameter in worker.parameters.items()}
            log_probs, _, gradients = Reference(folder, config, adapter, 2.0).solve(batch, *numbers.given)
            wanted = (log_probs, gradients)
        numbers.measure_plain(adapter, wanted)
        kernel = worker.calls.base.kernel
        whole = numbers.run(worker)
        yield from numbers.compare(f"against float64 ({kernel})", whole, wanted)
        yield from packed_rows(numbers, worker, whole)
        yield from chunk_rows(numbers, worker, whole)
        worker.close()
        if kernel == "varlen":
            yield from with_options(numbers, "one call of attention per sequence", wanted, attention="sdpa")
        yield from with_options(numbers, "gradient checkpointing", whole, checkpointing=True)


def with_options(numbers: Numbers, case: str, wanted: tuple[torch.Tensor, dict[str, torch.Tensor]], **options: Any) -> Iterator[Row]:
    worker = numbers.worker(**options)
    yield from numbers.compare(case, numbers.run(worker), wanted)
    worker.close()


def packed_rows(numbers: Numbers, worker: Worker, whole: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> Iterator[Row]:
    """Packed sequences must be what they are alone, whatever is packed next to them."""
    yield from numbers.compare("packed and one at a time", numbers.run(worker, list(bench.single_sequences(numbers.batch))), whole)
    first, second = numbers.batch.offsets[1:3]
    other = bench.make_batch(worker.calls.base.vocabulary, LENGTHS, TEMPERATURE, seed=1)
    other.ids[first:second] = numbers.batch.ids[first:second]
    inside = slice(*numpy.searchsorted(numbers.batch.targets, [first, second]))
    log_probs = torch.from_numpy(worker.forward(other, retain=False)["log_probs"]).double()
    yield judged(f"other neighbours {numbers.dtype}, log-probs", rms(log_probs[inside] - whole[0][inside]), numbers.log_prob_bound, "root mean square, nats")


def chunk_rows(numbers: Numbers, worker: Worker, whole: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> Iterator[Row]:
    """The LM head's chunks must not show."""
    import model

    own = model.rows_of_chunk
    worst = (0.0, 0.0)
    try:
        for rows in CHUNKS:
            model.rows_of_chunk = lambda vocabulary, device: rows
            log_probs, gradients = numbers.run(worker)
            worst = (max(worst[0], rms(log_probs - whole[0])), max(worst[1], difference(gradients, whole[1])))
    finally:
        model.rows_of_chunk = own
    yield judged(f"head in chunks {numbers.dtype}, log-probs", worst[0], numbers.log_prob_bound, f"root mean square, nats; rows {', '.join(map(str, CHUNKS[:2]))} and all")
    yield judged(f"head in chunks {numbers.dtype}, gradient", worst[1], numbers.gradient_bound, "relative")
