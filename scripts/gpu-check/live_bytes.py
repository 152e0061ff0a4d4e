"""Counts the bytes of all tensors alive on a device, where torch's allocator does not: on a CPU, and for tensors without data."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


class LiveBytes(TorchDispatchMode):
    """Bytes of all storages alive on one device that appeared under this mode, and their peak. Kernels report only their results, so what one of them
    holds inside is added here: a copy of the logits in logsumexp."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.now, self.peak = device, 0, 0
        self.alive: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, torch.Tensor) and value.device.type == self.device:
                self.see(value.untyped_storage())
        inside = args[0].numel() * args[0].element_size() if func is aten.logsumexp.default else 0
        self.peak = max(self.peak, self.now + inside)
        return out

    def see(self, storage: Any) -> None:
        """Counts a storage from now on until it is freed."""
        key, size = id(storage), storage.nbytes()
        if key in self.alive:
            return

        def gone(_: Any) -> None:
            self.now -= size
            del self.alive[key]

        self.alive[key] = weakref.ref(storage, gone)
        self.now += size
