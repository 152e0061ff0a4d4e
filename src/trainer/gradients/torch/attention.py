"""Causal attention within each packed sequence, none across sequences, without an N x N mask.

Registered with transformers under `NAME`, so the model's own code calls it with queries, keys and values. Two kernels: `varlen`, one call for all
sequences (CUDA, half precision), and `sdpa`, one call per sequence (everywhere).
"""

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any, Callable

import torch
import torch.nn.functional as F

from failure import bad_input

NAME = "vf_packed"
# Tensors that only repeat what the layout says.
PLACES = ("position_ids", "cache_position")


@dataclass(frozen=True)
class Layout:
    """Boundaries of a batch's sequences. `bounds`: [B + 1], from 0 to N; `cu`: the same on the device, int32; `longest`: tokens."""

    bounds: tuple[int, ...]
    cu: torch.Tensor
    longest: int
    kernel: str


def register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)


def choose_kernel(device: torch.device, dtype: torch.dtype, wanted: str = "auto") -> str:
    """For `auto`: `varlen` if the device and the type support it, else `sdpa`."""
    has_varlen = device.type == "cuda" and dtype in (torch.bfloat16, torch.float16) and _varlen() is not None
    if wanted == "varlen" and not has_varlen:
        raise bad_input("Attention varlen needs CUDA, half precision and torch.nn.attention.varlen; use sdpa")
    if wanted in ("varlen", "sdpa"):
        return wanted
    return "varlen" if has_varlen else "sdpa"


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    layout: Layout | None = None,
    is_causal: bool | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """query [1, H, N, D], key and value [1, K, N, D] with H a multiple of K; returns [1, N, H, D]."""
    if layout is None or softcap or attention_mask is not None:
        raise bad_input(f"Only plain causal attention can be trained, but {type(module).__name__} uses a soft cap or a mask, or hides its sequences; use another base")
    if not (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        raise bad_input(f"Only causal attention can be trained, but {type(module).__name__} looks ahead; use another base")
    # Any further tensor (sinks, biases, selected blocks) changes the result, and would be ignored silently here.
    if unknown := sorted(name for name, value in rest.items() if isinstance(value, torch.Tensor) and name not in PLACES):
        raise bad_input(f"Only plain causal attention can be trained, but {type(module).__name__} also passes {', '.join(unknown)}; use another base")
    if layout.kernel == "varlen":
        return _varlen_call(query, key, value, layout, scaling, sliding_window), None
    parts = []
    for start, end in zip(layout.bounds, layout.bounds[1:]):
        q, k, v = (x[:, :, start:end] for x in (query, key, value))
        parts.append(_causal(q, k, v, scaling, sliding_window))
    joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    return joined.transpose(1, 2).contiguous(), None


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scaling: float | None, window: int | None) -> torch.Tensor:
    """One sequence. The window matters only if the sequence is longer."""
    grouped = q.shape[1] != k.shape[1]
    length = q.shape[2]
    if window is None or length <= window:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
    place = torch.arange(length, device=q.device)
    distance = place[:, None] - place[None, :]
    mask = (distance >= 0) & (distance < window)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scaling, enable_gqa=grouped)


@cache
def _varlen() -> tuple[Callable[..., Any], frozenset[str]] | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn, frozenset(inspect.signature(varlen_attn).parameters)


def _varlen_call(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layout: Layout, scaling: float | None, window: int | None
) -> torch.Tensor:
    """All sequences in one kernel. Its parameters changed between torch 2.10 and 2.12, so they are inspected."""
    found = _varlen()
    assert found is not None
    call, known = found
    # [N, heads, D] is the layout that the projections produced: no copy.
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    options: dict[str, Any] = {}
    if q.shape[1] != k.shape[1]:
        if "enable_gqa" in known:
            options["enable_gqa"] = True
        else:
            times = q.shape[1] // k.shape[1]
            k, v = (x.repeat_interleave(times, dim=1) for x in (k, v))
    if "window_size" in known:
        options["window_size"] = (-1 if window is None else window - 1, 0)
    elif window is not None and layout.longest > window:
        raise bad_input(f"A sequence of {layout.longest} tokens exceeds the attention window of {window}, and this torch has no windowed varlen_attn; upgrade torch")
    else:
        options["is_causal"] = True
    if scaling is not None:
        if "scale" in known:
            options["scale"] = scaling
        else:
            q = q * (scaling * q.shape[-1] ** 0.5)
    out = call(q, k, v, layout.cu, layout.cu, layout.longest, layout.longest, **options)
    return (out[0] if isinstance(out, tuple) else out).unsqueeze(0)
