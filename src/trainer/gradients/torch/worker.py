"""Worker of torch-backend.ts: answers frames on stdin with frames on stdout until stdin ends.

Stdout carries only frames; anything a library prints goes to stderr, the log. Nothing is unpickled, and no code from a model's directory is run.
The first call is `hello`, then `load_base`, then `create_adapter`; after that any order. One call at a time.
VF_TORCH_MEMORY_LIMIT_TOKENS is for tests, see model.py.
"""

import os
import signal
import sys

# Must come before any import that could print: keep the real stdout for frames and redirect descriptor 1 to the log.
FRAMES_OUT = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
# Ctrl-C in a terminal reaches the whole process group; the trainer decides when the worker ends.
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# Threads that spin while waiting slow a busy machine tens of times: two of them on two cores shared with vLLM on the CPU.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Batches differ in length, and fixed segments would fragment memory.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
# This folder may be read-only, so it gets no __pycache__; libraries may write theirs.
WRITES_BYTECODE = not sys.dont_write_bytecode
sys.dont_write_bytecode = True

import queue  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402
from typing import Any, Callable  # noqa: E402

from frames import Arrays, FrameError, read_frame, write_frame  # noqa: E402

PROTOCOL = 1
# How long a call may continue after the trainer is gone, to remove its temporary directory.
GRACE_S = 2.0

Reply = tuple[dict[str, Any], Arrays]


class Worker:
    """The calls by name; each takes a header and arrays and returns both."""

    def __init__(self) -> None:
        self.device: Any = None
        self.dtype: Any = None
        self.base: Any = None
        self.model: Any = None

    def hello(self, header: dict[str, Any], _: Arrays) -> Reply:
        """Imports torch, which takes seconds."""
        sys.dont_write_bytecode = not WRITES_BYTECODE
        import torch
        import transformers

        sys.dont_write_bytecode = True
        from base import choose_device, choose_dtype
        from failure import bad_input

        if header["protocol"] != PROTOCOL:
            raise bad_input(f"Expected protocol {PROTOCOL}, got {header['protocol']}; worker.py and torch-backend.ts come from different releases")
        transformers.logging.set_verbosity_error()
        if header["threads"] is not None:
            torch.set_num_threads(header["threads"])
        self.device = choose_device(header["device"])
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

        self.base = load_base(
            header["path"], self.device, self.dtype, header["gradient_checkpointing"], header.get("attention", "auto"), header.get("random_seed")
        )
        return {
            "vocabulary_size": self.base.vocabulary,
            "parameters": sum(p.numel() for p in self.base.model.parameters()),
            "fingerprint": self.base.fingerprint,
            "attention": self.base.kernel,
        }, {}

    def create_adapter(self, header: dict[str, Any], _: Arrays) -> Reply:
        from adapter_files import load_adapter
        from lora import attach
        from model import Model

        adapter = attach(self.base.model, header["rank"], header["alpha"], header["targets"], header["seed"])
        if header["initial"] is not None:
            load_adapter(adapter, header["initial"])
            adapter.remember()
        self.model = Model(self.base, adapter)
        modules = [{"path": path, "in_features": l.in_features, "out_features": l.out_features} for path, l in adapter.layers.items()]
        return {"modules": modules, "trainable": sum(p.numel() for p in self.model.parameters.values())}, {}

    def forward(self, header: dict[str, Any], arrays: Arrays) -> Reply:
        from model import Batch

        batch = Batch(arrays["ids"], arrays["offsets"], arrays["targets"], header["temperature"])
        retain_as = header["batch_id"] if header["retain"] else None
        log_probs, entropy = self.model.forward(batch, retain_as, header["adapter"], header["entropy"])
        return {}, {"log_probs": log_probs} if entropy is None else {"log_probs": log_probs, "entropy": entropy}

    def backward(self, header: dict[str, Any], arrays: Arrays) -> Reply:
        self.model.backward(header["batch_id"], arrays["d_log_probs"], arrays.get("d_entropy"))
        return {}, {}

    def drop(self, header: dict[str, Any], _: Arrays) -> Reply:
        self.model.drop(header["batch_id"])
        return {}, {}

    def zero_grad(self, _: dict[str, Any], __: Arrays) -> Reply:
        self.model.zero_grad()
        return {}, {}

    def optim_step(self, header: dict[str, Any], _: Arrays) -> Reply:
        step, norm, skipped = self.model.optim_step(
            header["learning_rate"], (header["beta1"], header["beta2"]), header["epsilon"], header["weight_decay"], header["max_grad_norm"]
        )
        # A string, because JSON has no NaN.
        return {"step": step, "grad_norm": repr(norm), "skipped": skipped}, {}

    def save_adapter(self, header: dict[str, Any], _: Arrays) -> Reply:
        from adapter_files import save_adapter

        return {"files": save_adapter(self.model.adapter, self.base.name, header["directory"])}, {}

    def save_state(self, header: dict[str, Any], _: Arrays) -> Reply:
        from state_files import save_state

        save_state(self.model, header["directory"])
        return {}, {}

    def load_state(self, header: dict[str, Any], _: Arrays) -> Reply:
        from state_files import load_state

        return {"differences": load_state(self.model, header["directory"])}, {}

    def release(self, _: dict[str, Any], __: Arrays) -> Reply:
        free_memory()
        return {}, {}

    def stats(self, _: dict[str, Any], __: Arrays) -> Reply:
        return self.model.stats(), {}


CALLS = ("hello", "load_base", "create_adapter", "forward", "backward", "drop", "zero_grad", "optim_step", "save_adapter", "save_state", "load_state", "release", "stats")


def answer(worker: Worker, header: dict[str, Any], arrays: Arrays) -> Reply:
    """Returns the reply to one call, or its failure as a reply. The traceback goes to the log."""
    call: Callable[[dict[str, Any], Arrays], Reply] | None = getattr(worker, header["call"]) if header.get("call") in CALLS else None
    try:
        if call is None:
            raise ValueError(f"no call {header.get('call')!r}")
        reply, out = call(header, arrays)
        return {"id": header["id"], "ok": True, **reply}, out
    except ImportError as error:
        # classify imports torch, which may be what is missing.
        traceback.print_exc()
        return {"id": header["id"], "ok": False, "code": "missing_library", "text": " ".join(str(error).split())}, {}
    except BaseException as error:
        from failure import classify

        failure = classify(error)
        if failure is not error or failure.__cause__ is not None:
            traceback.print_exc()
        # The traceback's frames keep tensors alive.
        traceback.clear_frames(error.__traceback__)
    release_memory(failure.code)
    return {"id": header["id"], "ok": False, "code": failure.code, "text": failure.text}, {}


def release_memory(code: str) -> None:
    """After running out of memory, frees what the failed call left before the next one."""
    if code == "out_of_memory":
        free_memory()


def free_memory() -> None:
    """Gives memory that no tensor uses back to the device."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def read_calls(calls: "queue.Queue[Any]") -> None:
    """Reads ahead, so that the end of stdin ends the process even during a long call."""
    try:
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            calls.put(frame)
    except (FrameError, ValueError, KeyError) as error:
        print(f"worker: {error}", file=sys.stderr, flush=True)
    calls.put(None)
    threading.Event().wait(GRACE_S)
    os._exit(0)


def main() -> None:
    calls: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=read_calls, args=(calls,), daemon=True).start()
    worker = Worker()
    while (frame := calls.get()) is not None:
        header, arrays = frame
        if header.get("call") == "shutdown":
            write_frame(FRAMES_OUT, {"id": header["id"], "ok": True}, {})
            break
        reply, out = answer(worker, header, arrays)
        write_frame(FRAMES_OUT, reply, out)
    # Not a normal exit, which threads of torch and of CUDA can block.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
