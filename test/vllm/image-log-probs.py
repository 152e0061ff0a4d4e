"""Compares the log-probs of exported rollouts with images with those of transformers. Reads the question as JSON from stdin, prints the answer as JSON.

{"model", "adapter" (a folder or null), "images" (a folder), "rollouts": lines of vf-export} -> {"tokens", "error", "blind", "base"}: how many sampled
tokens there are, the largest difference, the largest one if every picture is painted over with a grey, and the largest one without the adapter.
"""

import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers
from PIL import Image

PREFIX = "base_model.model."


def apply_adapter(model, folder):
    config = json.loads((folder / "adapter_config.json").read_text())
    weights = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    modules = {name.removesuffix(".lora_A.weight") for name in weights if name.endswith(".lora_A.weight")}
    for module in modules:
        product = weights[f"{module}.lora_B.weight"] @ weights[f"{module}.lora_A.weight"]
        model.get_submodule(module.removeprefix(PREFIX)).weight.data += config["lora_alpha"] / config["r"] * product


def log_probs(model, processor, rollout, pictures):
    ids = torch.tensor([rollout["token_ids"]])
    kinds = torch.zeros_like(ids)
    for image in rollout.get("images", []):
        kinds[0, image["offset"] : image["offset"] + image["length"]] = 1
    seen = processor.image_processor(images=pictures, return_tensors="pt")
    lengths = [int(grid.prod()) // processor.image_processor.merge_size**2 for grid in seen["image_grid_thw"]]
    assert lengths == [image["length"] for image in rollout["images"]], f"pictures of {lengths} tokens"
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=kinds,
            pixel_values=seen["pixel_values"],
            image_grid_thw=seen["image_grid_thw"],
        ).logits[0]
    return torch.log_softmax(logits[:-1].double(), -1).gather(-1, ids[0, 1:, None])[:, 0]


def main():
    asked = json.load(sys.stdin)
    model = transformers.AutoModelForImageTextToText.from_pretrained(asked["model"], dtype=torch.float32, attn_implementation="sdpa").eval()
    processor = transformers.AutoProcessor.from_pretrained(asked["model"])
    rollouts = asked["rollouts"]
    shown = [[Image.open(pathlib.Path(asked["images"]) / f"{image['sha256']}.png").convert("RGB") for image in rollout["images"]] for rollout in rollouts]
    grey = [[Image.new("RGB", picture.size, (128, 128, 128)) for picture in pictures] for pictures in shown]

    def largest_difference(pictures):
        """Over all rollouts, to what was recorded."""
        largest = 0.0
        for rollout, seen in zip(rollouts, pictures):
            sampled = torch.tensor(rollout["loss_mask"][1:], dtype=torch.bool)
            recorded = torch.tensor([0.0 if value is None else value for value in rollout["logprobs"]][1:], dtype=torch.float64)
            largest = max(largest, float((log_probs(model, processor, rollout, seen) - recorded)[sampled].abs().max()))
        return largest

    base = largest_difference(shown)
    if asked["adapter"] is not None:
        apply_adapter(model, pathlib.Path(asked["adapter"]))
    tokens = sum(sum(rollout["loss_mask"]) for rollout in rollouts)
    print(json.dumps({"tokens": tokens, "error": largest_difference(shown), "blind": largest_difference(grey), "base": base}))


if __name__ == "__main__":
    main()
