"""Everything that a later run needs to continue bit for bit: adapter, Adam moments, step count, random state."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from adapter_files import check_tensors, read_tensors
from directory import write_directory
from failure import bad_input
from model import MOMENTS, Model

FORMAT = "vf-search torch state 1"
STATE = "state.json"
TENSORS = "state.safetensors"


@dataclass(frozen=True)
class HeldState:
    """A copy in host memory, so that a GPU needs no room for it."""

    tensors: dict[str, torch.Tensor]
    step: int
    cpu_rng: torch.Tensor
    cuda_rng: torch.Tensor | None


def held_state(model: Model) -> HeldState:
    cuda_rng = torch.cuda.get_rng_state(model.device) if model.device.type == "cuda" else None
    tensors = {name: tensor.to("cpu", copy=True) for name, tensor in _tensors(model).items()}
    return HeldState(tensors, model.steps, torch.get_rng_state(), cuda_rng)


def put_held_state(model: Model, held: HeldState) -> None:
    _replace(model, held.tensors, held.step)
    torch.set_rng_state(held.cpu_rng)
    if held.cuda_rng is not None:
        torch.cuda.set_rng_state(held.cuda_rng, model.device)


def movement(model: Model, held: HeldState) -> float:
    """The greatest absolute difference of a weight of the adapter from the copy."""
    return max((parameter.detach().cpu().double() - held.tensors[f"{name}.value"].double()).abs().max().item() for name, parameter in model.parameters.items())


def _tensors(model: Model) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in model.parameters.items():
        moments = model.optimizer.state.get(parameter, {})
        tensors[f"{name}.value"] = parameter.detach()
        for moment in MOMENTS:
            tensors[f"{name}.{moment}"] = moments.get(moment, torch.zeros_like(parameter)).detach()
    return tensors


def save_state(model: Model, directory: str) -> None:
    on_host = {name: tensor.cpu().contiguous() for name, tensor in _tensors(model).items()}

    def fill(folder: Path) -> None:
        save_file(on_host, folder / TENSORS)
        (folder / STATE).write_text(json.dumps(_description(model), indent=2) + "\n")

    write_directory(directory, fill)


def load_state(model: Model, directory: str) -> list[str]:
    """Replaces all but the base. Returns the differences from the saving environment that may change the last bits."""
    folder = Path(directory)
    for name in (STATE, TENSORS):
        if not (folder / name).is_file():
            raise bad_input(f"No {name} in {directory}; name a directory with a saved state")
    try:
        state = json.loads((folder / STATE).read_text())
    except ValueError as error:
        raise bad_input(f"{folder / STATE} is not valid JSON: {error}") from error
    own = _description(model)
    for key in ("format", "base", "rank", "alpha", "modules"):
        if state.get(key) != own[key]:
            raise bad_input(f"The state in {directory} has {key} {_short(state.get(key))}, but this run has {_short(own[key])}")
    found = read_tensors(folder / TENSORS)
    shapes = {f"{name}.{part}": tuple(p.shape) for name, p in model.parameters.items() for part in ("value", *MOMENTS)}
    check_tensors(shapes, found, broken="not_finite")
    _replace(model, found, int(state["step"]))
    torch.set_rng_state(_from_text(state["cpu_rng"]))
    if state["cuda_rng"] is not None and model.device.type == "cuda":
        torch.cuda.set_rng_state(_from_text(state["cuda_rng"]), model.device)
    return [f"{key} {state[key]} when the state was saved, {own[key]} now" for key in ("threads", "processes", "device", "dtype", "torch") if state.get(key) != own[key]]


def _replace(model: Model, found: dict[str, torch.Tensor], step: int) -> None:
    model.forget()
    with torch.no_grad():
        for name, parameter in model.parameters.items():
            parameter.copy_(found[f"{name}.value"])
    model.put_moments(step, lambda name, moment: found[f"{name}.{moment}"])


def _description(model: Model) -> dict[str, Any]:
    adapter = model.adapter
    is_cuda = model.device.type == "cuda"
    return {
        "format": FORMAT,
        "base": model.base.fingerprint,
        "rank": adapter.rank,
        "alpha": float(adapter.alpha),
        "modules": {path: [layer.in_features, layer.out_features] for path, layer in adapter.layers.items()},
        "step": model.steps,
        "threads": torch.get_num_threads(),
        "processes": model.processes,
        "device": str(model.device),
        "dtype": str(model.base.head.weight.dtype),
        "torch": torch.__version__,
        "cpu_rng": _to_text(torch.get_rng_state()),
        "cuda_rng": _to_text(torch.cuda.get_rng_state(model.device)) if is_cuda else None,
    }


def _to_text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _from_text(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
