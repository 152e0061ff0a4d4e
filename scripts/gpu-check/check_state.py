"""Does a checkpoint, or a step taken back, bring everything back on this device: adapter, moments, step count, and the random state of host and GPU?

Saves a state after two steps, trains two more, loads the state and trains the two again. Weights and random numbers must be equal bit for bit: the kernels run in
deterministic mode, so that nothing else can differ.
"""

from typing import Any, Iterator

import torch

import bench
from bench import Row, Setting, Worker, difference, judged

LAYERS = 4
LENGTHS = [130, 61, 200]


def check_state(setting: Setting, shape: str) -> Iterator[Row]:
    worker, config = bench.deterministic_worker(setting, shape, LAYERS)
    batch = bench.make_batch(config["vocab_size"], LENGTHS)
    state = str(setting.folder / "state")
    go_on(worker, batch)
    worker("save_state", directory=state)
    saved = values(worker)
    first = (random_numbers(worker), go_on(worker, batch))
    differences = worker("load_state", directory=state)["differences"]
    yield judged("differences of the environment that loading reports", len(differences), 0, "; ".join(differences))
    yield judged("weights and moments as they were saved", largest(values(worker), saved), 0, "largest difference")
    second = (random_numbers(worker), go_on(worker, batch))
    yield judged("random numbers after loading", largest(second[0], first[0]), 0, "largest difference, host and device")
    yield judged("two further steps after loading", largest(second[1], first[1]), 0, "largest difference of the weights")
    worker("load_state", directory=state)
    worker("hold")
    random_numbers(worker)
    go_on(worker, batch)
    worker("restore")
    third = (random_numbers(worker), go_on(worker, batch))
    worst = max(largest(each, wanted) for each, wanted in zip(third, first))
    yield judged("a step taken back: random numbers and two further steps", worst, 0, "largest difference")
    # Otherwise all of the above would say nothing.
    change = difference(first[1], {name: saved[name] for name in first[1]})
    yield Row("the two steps changed the weights", "passed" if change > 1e-6 else "failed", change, None, "relative")


def go_on(worker: Worker, batch: Any) -> dict[str, torch.Tensor]:
    """Two Adam steps."""
    for seed in (1, 2):
        worker.forward(batch)
        worker.backward(bench.gradient_of_loss(batch, seed))
        worker.step()
    return {name: parameter.detach().cpu().double() for name, parameter in worker.parameters.items()}


def values(worker: Worker) -> dict[str, torch.Tensor]:
    """Adapter and moments."""
    found = {name: parameter.detach().cpu().double() for name, parameter in worker.parameters.items()}
    moments = {f"moment {place}": tensor.detach().cpu().double() for place, tensor in enumerate(worker.calls.model.moments())}
    return {**found, **moments}


def random_numbers(worker: Worker) -> dict[str, torch.Tensor]:
    return {"host": torch.rand(64).double(), "device": torch.rand(64, device=worker.calls.device).cpu().double()}


def largest(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    return max(float((found[name] - wanted[name]).abs().max()) for name in wanted)
