"""Do several GPUs compute what one computes? The worker's own processes, one per GPU, as torch-backend.ts starts them; on a CPU two processes.

The adapter after one step must be that of one process up to rounding, for whole bases and for one whose layers are divided (FSDP2).
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

import torch
from safetensors.torch import load_file

import bench
from bench import WORKER, Row, Setting, Worker, difference, judged

LAYERS = 4
MOST_CARDS = 8


class Processes:
    """The ranks of one worker, and a stream to the first."""

    def __init__(self, setting: Setting, devices: list[str]) -> None:
        # The first rank removes the folder when it ends.
        store = str(Path(tempfile.mkdtemp(dir=setting.folder)) / "store") if len(devices) > 1 else ""
        common = {**os.environ, "WORLD_SIZE": str(len(devices)), "LOCAL_WORLD_SIZE": str(len(devices)), "VF_TORCH_STORE": store}
        self.ranks = []
        for rank, device in enumerate(devices):
            env = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "VF_TORCH_DEVICE": device}
            out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            self.ranks.append(subprocess.Popen([sys.executable, str(WORKER / "worker.py")], env=env, stdin=subprocess.PIPE, stdout=out))

    def __call__(self, call: str, arrays: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        from frames import read_frame, write_frame

        write_frame(self.ranks[0].stdin, {"id": 0, "call": call, **fields}, arrays or {})
        answer = read_frame(self.ranks[0].stdout)
        if answer is None:
            raise RuntimeError(f"the worker ended in {call} with {self.ranks[0].wait()}")
        if not answer[0]["ok"]:
            raise RuntimeError(f"{call}: {answer[0]['code']}: {answer[0]['text']}")
        return {**answer[0], **answer[1]}

    def close(self) -> None:
        self("shutdown")
        for rank in self.ranks:
            rank.stdin.close()
            rank.wait()


def check_cards(setting: Setting, shape: str) -> Iterator[Row]:
    count = min(torch.cuda.device_count(), MOST_CARDS) if setting.is_cuda else 2
    if count < 2:
        yield Row("several GPUs", "skipped", text="there is one GPU")
        return
    devices = [f"cuda:{i}" for i in range(count)] if setting.is_cuda else ["cpu"] * count
    config = setting.config(shape, LAYERS)
    folder = bench.write_model(setting.folder / shape, config, "cpu")
    batch = bench.make_batch(config["vocab_size"], [512 if setting.is_cuda else 40] * 2 * count)
    single = Worker(setting, folder, dtype="float32", fills_b=False)
    one, alone = play(setting, single, batch)
    single.close()
    # The result's last bits depend on the number of processes: sums in another order. Tests on CPUs cover whole bases, so one variant is enough here.
    for sharding in ("none", "full") if setting.is_cuda else ("full",):
        several = start(setting, devices, folder, sharding)
        found, seconds = play(setting, several, batch)
        several.close()
        name = f"{count} processes, {'whole bases' if sharding == 'none' else 'divided layers'}"
        yield judged(f"{name}, log-probs", float((found["log_probs"] - one["log_probs"]).abs().max()), 1e-4, "largest difference, nats, float32")
        adapters = ({key: value for key, value in each.items() if key != "log_probs"} for each in (found, one))
        yield judged(f"{name}, adapter after a step", difference(*adapters), 1e-4, "relative, float32")
        yield Row(f"{name}, speed of a step", "passed", alone / seconds, None, "times that of one process, same batch")


def start(setting: Setting, devices: list[str], folder: Path, sharding: str) -> Processes:
    worker, plan = Processes(setting, devices), setting.plan
    worker("hello", protocol=1, device=devices[0], dtype="float32", threads=None)
    worker("load_base", path=str(folder), gradient_checkpointing=False, sharding=sharding)
    worker("create_adapter", rank=plan["rank"], alpha=2.0 * plan["rank"], targets=plan["targets"], seed=bench.ADAPTER_SEED, initial=None)
    return worker


def play(setting: Setting, worker: Any, batch: Any) -> tuple[dict[str, torch.Tensor], float]:
    """Log-probs of two steps, the saved adapter after the first, and the seconds of the second."""
    log_probs = step(worker, batch)
    saved = Path(tempfile.mkdtemp(dir=setting.folder)) / "adapter"
    worker("save_adapter", base_name="random", directory=str(saved))
    began = time.perf_counter()
    second = step(worker, batch)
    seconds = time.perf_counter() - began
    tensors = {name: tensor.double() for name, tensor in load_file(saved / "adapter_model.safetensors").items()}
    return {"log_probs": torch.cat([log_probs, second]), **tensors}, seconds


def step(worker: Any, batch: Any) -> torch.Tensor:
    arrays = {"ids": batch.ids, "offsets": batch.offsets, "targets": batch.targets}
    answer = worker("forward", arrays, temperature=1.0, batch_id="batch", retain=True, adapter="on", entropy=False)
    worker("backward", {"d_log_probs": bench.gradient_of_loss(batch)}, batch_id="batch")
    worker("optim_step", learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0)
    return torch.from_numpy(answer["log_probs"].copy()).double()
