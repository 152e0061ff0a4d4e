"""The adapter as PEFT and vLLM read it: adapter_config.json and adapter_model.safetensors."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from directory import write_directory
from failure import Failure, bad_input
from lora import Adapter

PREFIX = "base_model.model."
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


def tensor_name(parameter: str) -> str:
    """PEFT's key for `<path>.lora_A`, without the adapter name."""
    return f"{PREFIX}{parameter}.weight"


def save_adapter(adapter: Adapter, base_name: str, directory: str) -> list[dict[str, Any]]:
    """Writes the directory in float32 and returns its files."""
    tensors = {tensor_name(name): tensor.detach().cpu().contiguous() for name, tensor in adapter.parameters().items()}

    def fill(folder: Path) -> None:
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
        (folder / CONFIG).write_text(json.dumps(config_of(adapter, base_name), indent=2, sort_keys=True) + "\n")

    return write_directory(directory, fill)


def config_of(adapter: Adapter, base_name: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name,
        "r": adapter.rank,
        # A whole alpha stays an integer, as PEFT writes it.
        "lora_alpha": int(adapter.alpha) if float(adapter.alpha).is_integer() else adapter.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(adapter.targets),
        "use_rslora": False,
        "use_dora": False,
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "modules_to_save": None,
        **({} if adapter.excluded is None else {"exclude_modules": adapter.excluded}),
        "layers_to_transform": None,
        "layers_pattern": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "revision": None,
        "auto_mapping": None,
    }


def load_adapter(adapter: Adapter, directory: str) -> None:
    """Replaces A and B with those of a PEFT directory, whose configuration the trainer has checked (engine/adapters/start-adapter.ts)."""
    file = Path(directory) / WEIGHTS
    if not file.is_file():
        raise bad_input(f"No {WEIGHTS} in {directory}; name a PEFT adapter directory")
    replace_tensors(adapter, {tensor_name(name): tensor for name, tensor in adapter.parameters().items()}, read_tensors(file))


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise bad_input(f"{file} is not a complete safetensors file: {' '.join(str(error).split())}") from error


def replace_tensors(adapter: Adapter, expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> None:
    """Copies `found` into the parameters of the same name."""
    check_tensors({name: tuple(tensor.shape) for name, tensor in expected.items()}, found)
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(found[name])


def check_tensors(expected: dict[str, tuple[int, ...]], found: dict[str, torch.Tensor], *, broken: str = "bad_input") -> None:
    """Checks names, shapes, types and finiteness, before anything is replaced. `broken` is the code of a failure for numbers that are not finite."""
    if wrong := sorted(expected.keys() ^ found.keys()):
        where = "missing" if wrong[0] in expected else "unknown"
        raise bad_input(f"Tensors do not match this adapter's {len(expected)} matrices: {wrong[0]} is {where} ({len(wrong)} differ)")
    for name, shape in expected.items():
        tensor = found[name]
        if tuple(tensor.shape) != shape:
            raise bad_input(f"Expected {name} to be {list(shape)}, got {list(tensor.shape)}")
        if not tensor.is_floating_point():
            raise bad_input(f"Tensor {name} ({tensor.dtype}) must hold finite floating-point numbers, not integers")
        if not bool(torch.isfinite(tensor).all()):
            raise Failure(broken, f"Tensor {name} ({tensor.dtype}) must hold finite floating-point numbers, not NaN or infinities")
