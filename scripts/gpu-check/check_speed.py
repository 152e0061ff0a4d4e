"""How fast is the worker next to transformers with PEFT, on the same batch in the same run?

A step is forward, backward and Adam on a micro-batch of equal sequences, so that the padded batch of the other side wastes nothing. Both recompute layers
(gradient checkpointing). If the other side's whole logits do not fit, it takes the batch in halves, quarters and so on.
"""

import statistics
import time
from typing import Any, Callable, Iterator

import torch

import bench
from bench import Row, Setting, Worker
from plain import load_plain, trainable

# Tokens of a sequence, sequences, timed steps.
ON_GPU, ON_CPU = (2048, 8, 3), (64, 4, 2)
# A worker slower than this share of the other side's speed is a fault; a CPU's speed says nothing.
LEAST = 0.8


def check_speed(setting: Setting, shape: str) -> Iterator[Row]:
    length, count, steps = ON_GPU if setting.is_cuda else ON_CPU
    folder = bench.write_config(setting.folder / shape, setting.config(shape))
    batch = bench.make_batch(setting.config(shape)["vocab_size"], [length] * count)
    dtype = "bfloat16" if setting.is_cuda else "float32"
    worker = Worker(setting, folder, dtype=dtype, checkpointing=True, random_seed=0)
    given = bench.gradient_of_loss(batch)

    def step() -> None:
        worker.forward(batch)
        worker.backward(given)
        worker.step()

    own = length * count / timed(setting, step, steps)
    worker.close()
    yield Row("worker", "passed", own, None, f"tokens per second, {count} sequences of {length}")
    other, name = plain_speed(setting, folder, dtype, batch, steps)
    yield Row(name, "passed", other, None, "tokens per second")
    slow = setting.is_cuda and not own >= LEAST * other
    yield Row("worker over that", "failed" if slow else "passed", own / other, None, f"ratio; a fault below {LEAST} on a GPU")


def plain_speed(setting: Setting, folder: Any, dtype: str, batch: Any, steps: int) -> tuple[float, str]:
    model = load_plain(folder, setting.device, dtype, random=True, checkpointing=True)
    model, parameters, name = trainable(model, setting.plan["targets"], setting.plan["rank"])
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, **({"fused": True} if setting.is_cuda else {}))
    ids = torch.from_numpy(batch.ids).long().view(len(batch.offsets) - 1, -1).to(setting.device)
    parts = 1
    while True:
        try:
            seconds = timed(setting, lambda: plain_step(model, optimizer, ids.chunk(parts)), steps)
            return ids.numel() / seconds, name if parts == 1 else f"{name}, in {parts} parts"
        except torch.OutOfMemoryError:
            if parts >= len(ids):
                raise
        parts *= 2
        torch.cuda.empty_cache()


def plain_step(model: Any, optimizer: Any, parts: Any) -> None:
    for part in parts:
        logits = model(input_ids=part, use_cache=False).logits[:, :-1]
        chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, part[:, 1:, None])
        (-chosen.mean() / len(parts)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def timed(setting: Setting, step: Callable[[], None], steps: int) -> float:
    """Seconds of the median step, after one to warm up."""
    times = []
    for _ in range(1 + steps):
        began = time.perf_counter()
        step()
        if setting.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])
