"""Plain autograd in float64 over transformers' own model, one sequence at a time, without a line of the worker: what a gradient backend is held to.

Reads from stdin {"model": DIR, "images": DIR, "cases": [...]}, writes a list of results to stdout, all JSON. A case: `adapter` (a PEFT directory, or null for the
base), `ids`, `offsets`, `targets`, `temperature`, and optionally `images` ({sequence, sha256}), `d_log_probs`, `d_entropy` and `adam` ({steps, learning_rate, beta1, ...}: that many
steps of torch.optim.AdamW on the gradient of the case, each after clipping).
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.func import functional_call
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForCausalLM, AutoModelForImageTextToText

PREFIX = "base_model.model."


def load_adapter(directory):
    """{module path: (A, B)} as float64 leaves, and alpha / rank."""
    config = json.loads((Path(directory) / "adapter_config.json").read_text())
    tensors = load_file(Path(directory) / "adapter_model.safetensors")
    leaves = {name: tensor.double().requires_grad_() for name, tensor in tensors.items()}
    return leaves, config["lora_alpha"] / config["r"]


def merged(model, leaves, scale):
    """The model's parameters with W + scale B A in place of each adapted W."""
    weights = dict(model.named_parameters())
    for name in leaves:
        if name.endswith(".lora_A.weight"):
            path = name.removeprefix(PREFIX).removesuffix(".lora_A.weight")
            b = leaves[name.replace(".lora_A.", ".lora_B.")]
            weights[f"{path}.weight"] = weights[f"{path}.weight"] + scale * b @ leaves[name]
    return weights


def shown(model, ids, images):
    """Inputs of one sequence; transformers places its images at the pads and computes the positions."""
    if not images:
        return {"input_ids": ids}
    pixels = model.processor([Image.open(model.images / f"{image['sha256']}.png").convert("RGB") for image in images], return_tensors="pt")
    types = (ids == model.config.image_token_id).int()
    return {"input_ids": ids, "pixel_values": pixels["pixel_values"].double(), "image_grid_thw": pixels["image_grid_thw"], "mm_token_type_ids": types}


def log_probs(model, weights, case):
    """Log-probs and entropies of the case's targets. [M] each."""
    chosen, entropies = [], []
    for sequence, (start, end) in enumerate(zip(case["offsets"], case["offsets"][1:])):
        inside = [t - start for t in case["targets"] if start <= t < end]
        if not inside:
            continue
        ids = torch.tensor([case["ids"][start:end]])
        inputs = shown(model, ids, [image for image in case.get("images", []) if image["sequence"] == sequence])
        logits = functional_call(model, weights, kwargs=inputs).logits[0] / case["temperature"]
        table = torch.log_softmax(logits, dim=-1)
        for place in inside:
            row = table[place - 1]
            chosen.append(row[ids[0, place]])
            entropies.append(-(row.exp() * row).sum())
    return torch.stack(chosen), torch.stack(entropies)


def differentiate(model, leaves, scale, case):
    chosen, entropies = log_probs(model, merged(model, leaves, scale), case)
    loss = (chosen * torch.tensor(case["d_log_probs"], dtype=torch.float64)).sum()
    if case.get("d_entropy") is not None:
        loss = loss + (entropies * torch.tensor(case["d_entropy"], dtype=torch.float64)).sum()
    loss.backward()


def as_lists(tensors):
    return {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}


def solve(model, case):
    leaves, scale = ({}, 1.0) if case["adapter"] is None else load_adapter(case["adapter"])
    with torch.no_grad():
        chosen, entropies = log_probs(model, merged(model, leaves, scale), case)
    result = {"log_probs": chosen.tolist(), "entropy": entropies.tolist()}
    if case.get("d_log_probs") is None:
        return result
    differentiate(model, leaves, scale, case)
    result["gradient"] = as_lists({name: leaf.grad.clone() for name, leaf in leaves.items()})
    if adam := case.get("adam"):
        optimizer = torch.optim.AdamW(
            leaves.values(), lr=adam["learning_rate"], betas=(adam["beta1"], adam["beta2"]), eps=adam["epsilon"], weight_decay=adam["weight_decay"]
        )
        norms = []
        for _ in range(adam["steps"]):
            optimizer.zero_grad()
            differentiate(model, leaves, scale, case)
            norms.append(float(torch.nn.utils.clip_grad_norm_(leaves.values(), adam["max_grad_norm"])))
            optimizer.step()
        result["parameters"], result["norms"] = as_lists(leaves), norms
    return result


def main():
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    kind = AutoModelForImageTextToText if "images" in request else AutoModelForCausalLM
    model = kind.from_pretrained(request["model"], dtype=torch.float64, attn_implementation="eager")
    if "images" in request:
        model.processor, model.images = AutoImageProcessor.from_pretrained(request["model"]), Path(request["images"])
    model.requires_grad_(False)
    json.dump([solve(model, case) for case in request["cases"]], sys.stdout)


if __name__ == "__main__":
    main()
