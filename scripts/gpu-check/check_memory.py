"""Is the peak memory of a step what the plan says? plan.json holds the estimates of src/launch/memory-estimate.ts.

The estimate without the CUDA context is compared with the peak that torch's allocator counts; it may be off by at most 10 %. What the card really gives up, the memory that the
allocator reserves and the context, may exceed the whole estimate by the tenth that a plan leaves free.
"""

import gc
from contextlib import nullcontext
from typing import Any, Iterator

import torch

import bench
from bench import Row, Setting, Worker, judged
from live_bytes import LiveBytes

TOLERANCE = 0.1
GIB = 2**30


def check_memory(setting: Setting, shape: str) -> Iterator[Row]:
    folder = bench.write_config(setting.folder / shape, setting.config(shape))
    for checkpointing in (True, False):
        cases = [case for case in setting.plan["shapes"][shape]["memory"] if case["checkpointing"] == checkpointing]
        runs = [case for case in cases if fits(setting, case)]
        yield from (skipped(case) for case in cases if case not in runs)
        if not runs:
            continue
        live = LiveBytes("cpu")
        with nullcontext() if setting.is_cuda else live:
            worker = Worker(setting, folder, dtype="auto", checkpointing=checkpointing, random_seed=0)
            for case in runs:
                yield from rows(setting, worker, case, live)
            worker.close()


def fits(setting: Setting, case: dict[str, Any]) -> bool:
    if not setting.is_cuda:
        return True
    return case["bytes"]["total"] * (1 + TOLERANCE) < torch.cuda.mem_get_info(setting.device)[0]


def name_of(case: dict[str, Any]) -> str:
    return f"{case['tokens']:,} tokens, checkpointing {'on' if case['checkpointing'] else 'off'}"


def skipped(case: dict[str, Any]) -> Row:
    return Row(name_of(case), "skipped", text=f"it needs {case['bytes']['total'] / GIB:.1f} GiB by the plan, more than is free")


def rows(setting: Setting, worker: Worker, case: dict[str, Any], live: LiveBytes) -> Iterator[Row]:
    planned = case["bytes"]["total"] - case["bytes"]["context"]
    batch = bench.make_batch(worker.calls.base.vocabulary, [case["sequence"]] * (case["tokens"] // case["sequence"]))
    given = bench.gradient_of_loss(batch)
    # After a step Adam has its moments, and a second micro-batch adds to a gradient.
    run(worker, batch, given)
    worker.step()
    run(worker, batch, given)
    gc.collect()
    if setting.is_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    live.peak = live.now
    run(worker, batch, given)
    worker("zero_grad")
    peak = torch.cuda.max_memory_allocated() if setting.is_cuda else live.peak
    sizes = f"{peak / GIB:.2f} GiB measured, {planned / GIB:.2f} planned" if setting.is_cuda else f"{peak:,} bytes measured, {planned:,} planned"
    yield judged(name_of(case), abs(planned / peak - 1), TOLERANCE, f"relative; {sizes}")
    if setting.is_cuda:
        reserved, context = torch.cuda.max_memory_reserved(), context_bytes(setting)
        total = case["bytes"]["total"]
        text = f"relative; {reserved / GIB:.2f} GiB reserved and {context / GIB:.2f} outside the allocator (with other programs'), {total / GIB:.2f} planned"
        yield judged(f"{name_of(case)}, with the context", max(0.0, (reserved + context) / total - 1), TOLERANCE, text)


def run(worker: Worker, batch: Any, given: Any) -> None:
    worker.forward(batch)
    worker.backward(given)


def context_bytes(setting: Setting) -> int:
    free, total = torch.cuda.mem_get_info(setting.device)
    return total - free - torch.cuda.memory_reserved()
