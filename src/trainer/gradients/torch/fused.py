"""Fused versions of transformers' operations: fewer kernels, fewer activations kept for backward. Used only where the result is the same."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

# Relative and absolute; in half precision the fused version rounds at different points.
TOLERANCE = {torch.float32: 1e-5}
HALF_TOLERANCE = 2e-2


def fuse(model: nn.Module) -> None:
    """Replaces the forward of RMSNorms and of gated SiLU blocks in place."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon") and hasattr(module, "weight"):
            _replace(module, partial(_rms_norm, module), module.weight.shape[-1])
        elif all(isinstance(getattr(module, name, None), nn.Linear) for name in ("gate_proj", "up_proj", "down_proj")):
            _replace(module, partial(_gated, module), module.gate_proj.in_features)


def _replace(module: nn.Module, forward: Any, width: int) -> None:
    """Replaces forward only if both agree on random numbers: a matching class name proves nothing."""
    weight = next(module.parameters())
    probe = torch.randn(2, width, generator=torch.Generator().manual_seed(0)).to(weight)
    with torch.no_grad():
        own, fused = module(probe), forward(probe)
    tolerance = TOLERANCE.get(probe.dtype, HALF_TOLERANCE)
    if isinstance(own, torch.Tensor) and torch.allclose(own.float(), fused.float(), rtol=tolerance, atol=tolerance):
        module.forward = forward


def _rms_norm(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """x [..., D]. One kernel instead of six, and no float32 copy of x is kept."""
    return F.rms_norm(x, (module.weight.shape[-1],), module.weight, module.variance_epsilon)


def _gated(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """x [..., D]. Looks layers up at each call, because an adapter may have replaced them."""
    return module.down_proj(_GatedSilu.apply(module.gate_proj(x), module.up_proj(x)))


class _GatedSilu(torch.autograd.Function):
    """silu(gate) · up [..., F]. Backward recomputes silu(gate): keeping it would be a fifth of a layer's activations."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate, up = ctx.saved_tensors
        return torch.ops.aten.silu_backward(d_out * up, gate), F.silu(gate).mul_(d_out)
