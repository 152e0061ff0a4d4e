"""A base that does not fit on one GPU: each rank holds a part of every layer, and a layer is whole only while it computes (PyTorch's FSDP2).

The adapter, the embedding, the last norm and the LM head stay whole on every rank. Gathering a layer needs all ranks, so a rank that fails inside a layer
must go through the remaining ones too: it passes its input on and reports the failure at the end.
"""

import json
import math
import struct
from functools import partial
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn

from failure import EXIT_BROKEN, EXIT_MEMORY, Ended, Failure, bad_input, classify, clear
from memory_limit import MemoryLimit

# `auto` shards a base that takes more than this share of a GPU's free memory: activations need the rest.
LARGEST_SHARE = 0.5


class Guard:
    """The failure of this rank inside a layer, if any. `limited` is the layer where a test's memory ends, in the middle."""

    def __init__(self, limited: nn.Module) -> None:
        self.failure: Failure | None = None
        self.limited, self.limit = limited, MemoryLimit()

    def run(self, act: Callable[[], Any], what: str) -> Any:
        """Runs all layers, forward or backward. A failure outside them would leave other ranks waiting, so it ends this one."""
        self.failure = None
        try:
            value = act()
        except Exception as error:
            failure = classify(error)
            code = EXIT_MEMORY if failure.code == "out_of_memory" else EXIT_BROKEN
            raise Ended(code, f"{what} failed where ranks exchange a layer: {failure.text}") from error
        if self.failure is not None:
            raise self.failure
        return value

    def note(self, error: Exception) -> None:
        self.failure = classify(error)
        clear(error)


def is_wanted(wanted: str, base_bytes: int, free_bytes: float) -> bool:
    """`free_bytes`: of the fullest GPU; infinite on a CPU."""
    if wanted not in ("auto", "none", "full"):
        raise bad_input(f"sharding must be auto, none or full, got {wanted}")
    return wanted == "full" or (wanted == "auto" and base_bytes > LARGEST_SHARE * free_bytes)


def free_bytes(device: torch.device) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else float("inf")


def bytes_of_base(folder: Path, dtype: torch.dtype) -> int:
    """From the shapes in the headers of the weights' files."""
    count = 0
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as stream:
            header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
        for name, entry in header.items():
            if name != "__metadata__":
                count += torch.Size(entry["shape"]).numel()
    return count * dtype.itemsize


def shard(model: nn.Module, decoder: nn.Module, device: torch.device, group: Any) -> Guard:
    """The model is on the host; afterwards each layer's part and all else is on the device. Adapters are added later and stay whole."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    layers = getattr(decoder, "layers", None)
    if layers is None:
        raise bad_input(f"backend.sharding needs a base with a list of layers, but {type(decoder).__name__} has none; set it to none")
    mesh = DeviceMesh.from_group(group, device.type)
    guard = Guard(layers[len(layers) // 2])
    for layer in layers:
        layer.forward = partial(_guarded, guard, layer, layer.forward)
        fully_shard(layer, mesh=mesh)
    inside = {id(module) for layer in layers for module in layer.modules()}
    whole = [module for module in model.modules() if id(module) not in inside]
    for module in whole:
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.data.to(device)
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))
    # The root has nothing to shard; it lets one layer be gathered while another computes.
    fully_shard(decoder, mesh=mesh, ignored_params={p for module in whole for p in module.parameters(recurse=False)})
    return guard


def _guarded(guard: Guard, layer: nn.Module, forward: Any, x: torch.Tensor, *rest: Any, **kwargs: Any) -> torch.Tensor:
    if guard.failure is None:
        run = partial(_first, guard, layer, forward, rest, kwargs)
        try:
            if not torch.is_grad_enabled():
                return run(x)
            return _Guarded.apply(guard, guard.limit.backward if layer is guard.limited else math.inf, run, x, *(p for p in layer.parameters() if p.requires_grad))
        except Exception as error:
            guard.note(error)
    return x


def _first(guard: Guard, layer: nn.Module, forward: Any, rest: Any, kwargs: Any, x: torch.Tensor) -> torch.Tensor:
    if layer is guard.limited:
        guard.limit.check(x.shape[1], guard.limit.forward, x.device)
    return forward(x, *rest, **kwargs)


class _Guarded(torch.autograd.Function):
    """A layer with a graph of its own, so that its backward can fail without ending the walk through the other layers."""

    @staticmethod
    def forward(ctx: Any, guard: Guard, limit: float, run: Any, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inside = x.detach().requires_grad_(x.requires_grad)
            out = run(inside)
        ctx.guard, ctx.limit, ctx.graph = guard, limit, (inside, out, parameters)
        return out.detach()

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple[Any, ...]:
        inside, out, parameters = ctx.graph
        ctx.graph = None
        nothing = (None,) * len(parameters)
        if ctx.guard.failure is not None:
            return (None, None, None, d_out, *nothing)
        wanted = [*([inside] if inside.requires_grad else []), *parameters]
        try:
            ctx.guard.limit.check(out.shape[1], ctx.limit, out.device)
            found = torch.autograd.grad(out, wanted, d_out, allow_unused=True)
        except Exception as error:
            ctx.guard.note(error)
            return (None, None, None, d_out, *nothing)
        return (None, None, None, *(found if inside.requires_grad else (None, *found)))
