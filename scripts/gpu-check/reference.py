"""Log-probs and gradients of Qwen2 and Qwen3 decoders in float64 on the CPU, written out from their definition: no line of the worker, none of transformers.

One sequence at a time, so nothing is packed; whole logits, so there are no chunks; plain autograd, so nothing is recomputed.
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Reference:
    """A model directory and an adapter `{path.lora_A, path.lora_B}` in float64. `scale` is alpha / rank."""

    def __init__(self, folder: Path, config: dict[str, Any], adapter: dict[str, torch.Tensor], scale: float) -> None:
        self.config, self.scale = config, scale
        self.weights = {name: tensor.double() for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}
        self.adapter = {name: tensor.detach().cpu().double().requires_grad_() for name, tensor in adapter.items()}

    def solve(self, batch: Any, d_log_probs: Any, d_entropy: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Log-probs [M], entropies [M] in nats, and the gradient by parameter."""
        log_probs, entropies = [], []
        for start, end in zip(batch.offsets, batch.offsets[1:]):
            own = torch.from_numpy(batch.targets[(batch.targets >= start) & (batch.targets < end)] - start).long()
            ids = torch.from_numpy(batch.ids[start:end]).long()
            table = torch.log_softmax(self._logits(ids)[own - 1] / batch.temperature, dim=-1)
            log_probs.append(table.gather(1, ids[own, None])[:, 0])
            entropies.append(-(table.exp() * table).sum(-1))
        joined = torch.cat(log_probs), torch.cat(entropies)
        given = [torch.from_numpy(each).double() for each in (d_log_probs, d_entropy)]
        gradients = torch.autograd.grad(joined, list(self.adapter.values()), given)
        return joined[0].detach(), joined[1].detach(), dict(zip(self.adapter, gradients))

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        """[S] to [S, V]."""
        x = self.weights["model.embed_tokens.weight"][ids]
        cos, sin = self._rotation(len(ids))
        for layer in range(self.config["num_hidden_layers"]):
            path = f"model.layers.{layer}"
            x = x + self._attention(f"{path}.self_attn", self._norm(f"{path}.input_layernorm", x), cos, sin)
            y = self._norm(f"{path}.post_attention_layernorm", x)
            gated = F.silu(self._linear(f"{path}.mlp.gate_proj", y)) * self._linear(f"{path}.mlp.up_proj", y)
            x = x + self._linear(f"{path}.mlp.down_proj", gated)
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return self._norm("model.norm", x) @ self.weights[f"{head}.weight"].t()

    def _attention(self, path: str, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        length, width = len(x), self.config["head_dim"]
        q, k, v = (self._linear(f"{path}.{name}_proj", x).view(length, -1, width) for name in "qkv")
        if f"{path}.q_norm.weight" in self.weights:
            q, k = self._norm(f"{path}.q_norm", q), self._norm(f"{path}.k_norm", k)
        q, k = (part * cos + torch.cat([-part[..., width // 2 :], part[..., : width // 2]], -1) * sin for part in (q, k))
        times = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = torch.einsum("ihd,jhd->hij", q, k) / width**0.5
        weights = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
        return self._linear(f"{path}.o_proj", torch.einsum("hij,jhd->ihd", weights, v).reshape(length, -1))

    def _linear(self, path: str, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weights[f"{path}.weight"], self.weights.get(f"{path}.bias"))
        a, b = self.adapter.get(f"{path}.lora_A"), self.adapter.get(f"{path}.lora_B")
        return y if a is None or b is None else y + self.scale * (x @ a.t()) @ b.t()

    def _norm(self, path: str, x: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt() * self.weights[f"{path}.weight"]

    def _rotation(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, 1, head_dim] each."""
        width = self.config["head_dim"]
        speeds = self.config["rope_theta"] ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = (torch.arange(length, dtype=torch.float64)[:, None] * speeds).repeat(1, 2)[:, None]
        return angles.cos(), angles.sin()
