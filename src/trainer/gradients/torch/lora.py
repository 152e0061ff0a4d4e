"""The adapter: y = W x + (alpha / rank) B A x on frozen linear layers. A and B are always float32; the products run in the base's type."""

import hashlib
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from base import Base
from failure import bad_input


@dataclass
class Switch:
    """Shared by all layers of an adapter. `on`: the trained adapter. `off`: the base alone. `initial`: the adapter at the start of the run."""

    use: str = "on"


class LoraLinear(nn.Module):
    """A frozen linear layer [out, in] and its adapter: `lora_A` [rank, in], `lora_B` [out, rank]."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, switch: Switch) -> None:
        super().__init__()
        self.base, self.scale, self.switch = base, alpha / rank, switch
        self.in_features, self.out_features = base.in_features, base.out_features
        device = base.weight.device
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features, dtype=torch.float32, device=device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, dtype=torch.float32, device=device))
        # A and B at the start of the run, in the base's type; None if B was 0, so that the layer equalled its base.
        self.initial: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in] to [..., out]."""
        pair = {"on": (self.lora_A, self.lora_B), "initial": self.initial, "off": None}[self.switch.use]
        if pair is None:
            return self.base(x)
        a, b = pair
        rows = x.reshape(-1, self.in_features)
        low = rows @ a.to(x.dtype).t()
        # addmm_ accumulates in place: the product needs no [rows, out] tensor of its own.
        y = F.linear(rows, self.base.weight, self.base.bias).addmm_(low, b.to(x.dtype).t(), alpha=self.scale)
        return y.view(*x.shape[:-1], self.out_features)


@dataclass(frozen=True)
class Adapter:
    """All adapted layers of a base by path, in the base's order."""

    rank: int
    alpha: float
    targets: tuple[str, ...]
    layers: dict[str, LoraLinear]
    switch: Switch
    # Regular expression of the modules that have none though their last name is a target.
    excluded: str | None = None

    def parameters(self) -> dict[str, nn.Parameter]:
        """`<path>.lora_A` and `<path>.lora_B` of every layer."""
        return {f"{path}.{name}": getattr(layer, name) for path, layer in self.layers.items() for name in ("lora_A", "lora_B")}

    def remember(self) -> None:
        """Makes the current A and B the `initial` ones."""
        for layer in self.layers.values():
            layer.initial = tuple(x.detach().to(layer.base.weight.dtype, copy=True) for x in (layer.lora_A, layer.lora_B))


def attach(base: Base, rank: int, alpha: float, targets: list[str], seed: int) -> Adapter:
    """Adds a fresh adapter to every linear layer whose last name is a target: A uniform within 1 / sqrt(in) as in PEFT, B = 0. A tower gets none: vLLM
    ignores adapters on it."""
    model = base.model
    left_out = {base.head, *(base.vision.tower.modules() if base.vision else ())}
    linears = {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear) and module not in left_out}
    names = {path.rsplit(".", 1)[-1] for path in linears}
    for target in targets:
        if target not in names:
            raise bad_input(f"lora.targets names {target}, but this base has no linear layer of that name; choose from {', '.join(sorted(names))}")
    switch = Switch()
    layers: dict[str, LoraLinear] = {}
    for path, linear in linears.items():
        if path.rsplit(".", 1)[-1] in targets:
            layer = LoraLinear(linear, rank, alpha, switch)
            with torch.no_grad():
                layer.lora_A.copy_(initial_a(path, rank, linear.in_features, seed))
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
            layers[path] = layer
    return Adapter(rank, alpha, tuple(sorted(targets)), layers, switch, r".*\bvisual\b.*" if base.vision else None)


def initial_a(path: str, rank: int, in_features: int, seed: int) -> torch.Tensor:
    """[rank, in]. Drawn on the CPU from the layer's own generator, so that it depends only on seed and path."""
    digest = hashlib.sha256(f"{seed}:{path}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    bound = 1.0 / math.sqrt(in_features)
    return torch.empty(rank, in_features).uniform_(-bound, bound, generator=generator)
