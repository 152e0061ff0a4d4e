"""The worker's calls. Torch is imported by the first one, `hello`, so that a missing library is an answer and not a crash.

With several ranks (ranks.py), all of them run every call; what only rank 0 may do, because other hosts do not see its files, it does in `alone`.
"""

import os
import sys
from functools import partial
from typing import Any, Callable

from frames import Arrays

PROTOCOL = 1
RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))

Reply = tuple[dict[str, Any], Arrays]


class Calls:
    """The calls by name; each takes a header and arrays and returns both. With several ranks, all of them run every call."""

    def __init__(self, *, writes_bytecode: bool) -> None:
        self.writes_bytecode = writes_bytecode
        self.ranks: Any = None
        self.device: Any = None
        self.dtype: Any = None
        self.base: Any = None
        # On several ranks `parallel` runs `model`; else both are the same.
        self.model: Any = None
        self.parallel: Any = None
        self.held: Any = None

    def join(self) -> None:
        """Imports torch and waits for all ranks."""
        from ranks import Ranks

        ranks = Ranks(RANK, SIZE)
        ranks.join()
        self.ranks = ranks

    def together(self, act: Callable[[], Any]) -> Any:
        return self.ranks.together(act) if self.ranks else act()

    def alone(self, act: Callable[[], Any]) -> Any:
        """Runs the act on rank 0 only, whose directories the other ranks may not see."""
        return self.together(act if RANK == 0 else lambda: None)

    def hello(self, header: dict[str, Any], _: Arrays) -> Reply:
        """Imports torch, which takes seconds."""
        sys.dont_write_bytecode = not self.writes_bytecode
        import torch
        import transformers

        sys.dont_write_bytecode = True
        from base import choose_device, choose_dtype
        from failure import bad_input

        if header["protocol"] != PROTOCOL:
            raise bad_input(f"Expected protocol {PROTOCOL}, got {header['protocol']}; worker.py and torch-backend.ts come from different releases")
        transformers.logging.set_verbosity_error()
        if SIZE > 1 and RANK == 0:
            self.join()
            self.ranks.share(header, {})
        threads = header["threads"]
        self.device = self.together(lambda: choose_device(header["device"] if RANK == 0 else own_device(header["device"])))
        if threads is None and SIZE > 1 and self.device.type == "cpu":
            # Torch would give each of the ranks all cores.
            threads = max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        if threads is not None:
            torch.set_num_threads(threads)
        if self.ranks:
            self.ranks.use(self.device)
        self.dtype = choose_dtype(header["dtype"], self.device)
        is_cuda = self.device.type == "cuda"
        if not is_cuda:
            torch.use_deterministic_algorithms(True, warn_only=True)
        return {
            "protocol": PROTOCOL,
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if is_cuda else "CPU",
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "entropy_gradient": True,
            "memory_bytes": torch.cuda.get_device_properties(self.device).total_memory if is_cuda else None,
        }, {}

    def load_base(self, header: dict[str, Any], _: Arrays) -> Reply:
        from base import load_base

        load = partial(load_base, header["path"], self.device, self.dtype, header["gradient_checkpointing"])
        shard = self.sharding(header) if self.ranks else None
        self.base = self.together(lambda: load(header.get("attention", "auto"), header.get("random_seed"), shard))
        if self.ranks:
            self.ranks.check_same(self.base.fingerprint, f"the base at {header['path']}")
        if self.base.vision:
            self.base.vision.use(header.get("images_folder"), header.get("image_cache_bytes"))
        return {
            "vocabulary_size": self.base.vocabulary,
            "parameters": sum(p.numel() for p in self.base.model.parameters()),
            "fingerprint": self.base.fingerprint,
            "attention": self.base.kernel,
            "sharded": self.base.guard is not None,
            "images": self.base.vision is not None,
        }, {}

    def sharding(self, header: dict[str, Any]) -> Any:
        """`shard` for load_base, or None where every rank holds the whole base."""
        import torch
        from base import resolve
        from sharding import bytes_of_base, free_bytes, is_wanted, shard

        free = self.ranks.gather(torch.tensor([free_bytes(self.device)], dtype=torch.float64))
        own = self.together(lambda: bytes_of_base(resolve(header["path"]), self.dtype))
        # Every rank uses rank 0's size, so that all decide alike. If a rank has other files, check_same reports it.
        size = int(self.ranks.gather(torch.tensor([own]))[0])
        if not is_wanted(header.get("sharding", "auto"), size, min(float(x) for x in free)):
            return None
        # All ranks have loaded the base before the first of them waits for the others' parts.
        return lambda model, decoder: self.together(lambda: shard(model, decoder, self.device, self.ranks.data))

    def create_adapter(self, header: dict[str, Any], _: Arrays) -> Reply:
        from adapter_files import load_adapter
        from lora import attach
        from model import Model

        adapter = self.together(lambda: attach(self.base, header["rank"], header["alpha"], header["targets"], header["seed"]))
        if header["initial"] is not None:
            self.alone(lambda: load_adapter(adapter, header["initial"]))
        self.parallel = self.model = Model(self.base, adapter)
        if self.ranks:
            from parallel import ParallelModel

            self.parallel = ParallelModel(self.model, self.ranks)
            self.parallel.replaced()
        if header["initial"] is not None:
            adapter.remember()
        modules = [{"path": path, "in_features": l.in_features, "out_features": l.out_features} for path, l in adapter.layers.items()]
        return {"modules": modules, "trainable": sum(p.numel() for p in self.model.parameters.values())}, {}

    def forward(self, header: dict[str, Any], arrays: Arrays) -> Reply:
        from batch import Batch
        from pictures import placed_pictures

        ids, offsets, targets = arrays["ids"], arrays["offsets"], arrays["targets"]
        batch = Batch(ids, offsets, targets, header["temperature"], placed_pictures(header.get("images")), arrays.get("target_ids"))
        retain_as = header["batch_id"] if header["retain"] else None
        log_probs, entropy = self.parallel.forward(batch, retain_as, header["adapter"], header["entropy"])
        return {}, {"log_probs": log_probs} if entropy is None else {"log_probs": log_probs, "entropy": entropy}

    def backward(self, header: dict[str, Any], arrays: Arrays) -> Reply:
        self.parallel.backward(header["batch_id"], arrays["d_log_probs"], arrays.get("d_entropy"))
        return {}, {}

    def drop(self, header: dict[str, Any], _: Arrays) -> Reply:
        self.parallel.drop(header["batch_id"])
        return {}, {}

    def zero_grad(self, _: dict[str, Any], __: Arrays) -> Reply:
        self.parallel.zero_grad()
        return {}, {}

    def optim_step(self, header: dict[str, Any], _: Arrays) -> Reply:
        step, norm, skipped = self.parallel.optim_step(
            header["learning_rate"], (header["beta1"], header["beta2"]), header["epsilon"], header["weight_decay"], header["max_grad_norm"]
        )
        # A string, because JSON has no NaN.
        return {"step": step, "grad_norm": repr(norm), "skipped": skipped}, {}

    def save_adapter(self, header: dict[str, Any], _: Arrays) -> Reply:
        from adapter_files import save_adapter

        return {"files": self.alone(lambda: save_adapter(self.model.adapter, header["base_name"], header["directory"]))}, {}

    def save_state(self, header: dict[str, Any], _: Arrays) -> Reply:
        from state_files import save_state

        self.alone(lambda: save_state(self.model, header["directory"]))
        return {}, {}

    def load_state(self, header: dict[str, Any], _: Arrays) -> Reply:
        from state_files import load_state

        differences = self.alone(lambda: load_state(self.model, header["directory"]))
        if self.ranks:
            self.parallel.replaced()
        return {"differences": differences}, {}

    def hold(self, _: dict[str, Any], __: Arrays) -> Reply:
        from state_files import held_state

        # On rank 0, whose state the others get again.
        self.held = self.alone(lambda: held_state(self.model))
        return {}, {}

    def restore(self, _: dict[str, Any], __: Arrays) -> Reply:
        from state_files import put_held_state

        def put() -> None:
            put_held_state(self.model, self.copy())

        self.alone(put)
        self.held = None
        if self.ranks:
            self.parallel.replaced()
        return {}, {}

    def movement(self, _: dict[str, Any], __: Arrays) -> Reply:
        from state_files import movement

        return {"most": repr(self.alone(lambda: movement(self.model, self.copy())))}, {}

    def copy(self) -> Any:
        from failure import bad_input

        if self.held is None:
            raise bad_input("There is no state to return to; call hold first")
        return self.held

    def is_finite(self, _: dict[str, Any], __: Arrays) -> Reply:
        return {"finite": self.alone(lambda: self.model.is_finite())}, {}

    def release(self, _: dict[str, Any], __: Arrays) -> Reply:
        from failure import free_memory

        free_memory()
        return {}, {}

    def stats(self, _: dict[str, Any], __: Arrays) -> Reply:
        return self.parallel.stats(), {}


CALLS = ("hello", "load_base", "create_adapter", "forward", "backward", "drop", "zero_grad", "optim_step", "save_adapter", "save_state", "load_state", "hold", "restore", "movement", "is_finite", "release", "stats")


def own_device(of_rank_0: str) -> str:
    """VF_TORCH_DEVICE, else the GPU that torchrun's numbering gives this rank if rank 0 has one."""
    if device := os.environ.get("VF_TORCH_DEVICE"):
        return device
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if of_rank_0.startswith("cuda") else of_rank_0
