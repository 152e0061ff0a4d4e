"""transformers' own model with LoRA, as one would train it without this package: a padded batch, its own attention, whole logits, autograd."""

from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn


class PlainLora(nn.Module):
    """A frozen linear layer with A and B in float32, whose products run in the layer's type."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        place = {"device": base.weight.device, "dtype": torch.float32}
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features, **place) / base.in_features**0.5)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, **place))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.scale * (x @ self.lora_A.to(x.dtype).t() @ self.lora_B.to(x.dtype).t())


def add_lora(model: nn.Module, targets: list[str], rank: int, scale: float) -> dict[str, nn.Parameter]:
    """`{path.lora_A, path.lora_B}`, named as the worker names them."""
    parameters: dict[str, nn.Parameter] = {}
    for path, module in list(model.named_modules()):
        if path.rsplit(".", 1)[-1] in targets:
            parent, _, name = path.rpartition(".")
            layer = PlainLora(module, rank, scale)
            setattr(model.get_submodule(parent), name, layer)
            parameters.update({f"{path}.lora_A": layer.lora_A, f"{path}.lora_B": layer.lora_B})
    return parameters


def load_plain(folder: Path, device: str, dtype: str, *, random: bool = False, checkpointing: bool = False) -> nn.Module:
    """`random`: the folder holds a configuration only."""
    from transformers import AutoConfig, AutoModelForCausalLM

    kind = getattr(torch, dtype)
    if random:
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(str(folder)), dtype=kind, attn_implementation="sdpa")
    else:
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=kind, attn_implementation="sdpa").to(device)
    model.requires_grad_(False)
    if checkpointing:
        model.train()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def trainable(model: nn.Module, targets: list[str], rank: int) -> tuple[nn.Module, list[nn.Parameter], str]:
    """The model with an adapter of PEFT where it is installed, else with one of this file; its parameters, and what made it."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        return model, list(add_lora(model, targets, rank, 2.0).values()), "transformers with a plain LoRA"
    adapted = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, task_type="CAUSAL_LM"))
    return adapted, [each for each in adapted.parameters() if each.requires_grad], f"transformers with PEFT {metadata.version('peft')}"


def solve_plain(model: nn.Module, parameters: dict[str, nn.Parameter], batch: Any, d_log_probs: Any, d_entropy: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Log-probs [M] and the gradient by parameter in float64 on the host, one sequence at a time."""
    device = next(model.parameters()).device
    log_probs, entropies = [], []
    for start, end in zip(batch.offsets, batch.offsets[1:]):
        ids = torch.from_numpy(batch.ids[start:end]).long().to(device)
        own = torch.from_numpy(batch.targets[(batch.targets >= start) & (batch.targets < end)] - start).long().to(device)
        table = torch.log_softmax(model(input_ids=ids[None], use_cache=False).logits[0, own - 1].float() / batch.temperature, dim=-1)
        log_probs.append(table.gather(1, ids[own, None])[:, 0])
        entropies.append(-(table.exp() * table).sum(-1))
    outputs = [torch.cat(log_probs), torch.cat(entropies)]
    given = [torch.from_numpy(each).to(device) for each in (d_log_probs, d_entropy)]
    gradients = torch.autograd.grad(outputs, list(parameters.values()), given)
    return outputs[0].detach().cpu().double(), {name: gradient.cpu().double() for name, gradient in zip(parameters, gradients)}
