"""Compares the plugin's LoRA products with those that vLLM itself computes on a CPU. Prints the largest difference of each as JSON."""

import json

import lora_products
import torch
from vllm.lora.ops import torch_ops

torch.manual_seed(0)
TOKENS, INPUT, RANK, OUTPUT, SLOTS = 37, 24, 8, 40, 3
x, weights_a, weights_b = torch.randn(TOKENS, INPUT), torch.randn(SLOTS, 1, RANK, INPUT), torch.randn(SLOTS, 1, OUTPUT, RANK)
lengths = torch.tensor([5, 20, 12])
cases = {"one adapter": torch.tensor([1, 1, 1]), "several": torch.tensor([2, 0, 1])}
found = {}
for name, adapters in cases.items():
    indices = torch.repeat_interleave(adapters, lengths)
    metadata = (torch.tensor([0, 5, 25]), lengths, adapters, 3, 20, TOKENS)
    for phase in ("decode", "prefill"):
        results = []
        for ops in (torch_ops, lora_products):
            low, y = torch.zeros(TOKENS, RANK), torch.ones(TOKENS, 64)
            if phase == "decode":
                ops.bgmv_shrink(x, weights_a, low, indices, 0.5)
                ops.bgmv_expand_slice(low, weights_b, y, indices, 16, OUTPUT, True)
            else:
                ops.sgmv_shrink(x, weights_a, low, *metadata, 0.5)
                ops.sgmv_expand_slice(low, weights_b, y, *metadata, 16, OUTPUT, True)
            results.append(y)
        found[f"{name}, {phase}"] = (results[0] - results[1]).abs().max().item()
# Tokens of the base stay as they are.
y, low = torch.ones(4, 64), torch.zeros(4, RANK)
lora_products.bgmv_shrink(x[:4], weights_a, low, torch.tensor([-1, -1, 0, -1]), 1.0)
lora_products.bgmv_expand_slice(low, weights_b, y, torch.tensor([-1, -1, 0, -1]), 0, OUTPUT, True)
found["base"] = (y[[0, 1, 3]] - 1).abs().max().item()
found["changed"] = (y[2] - 1).abs().max().item()
print(json.dumps(found))
