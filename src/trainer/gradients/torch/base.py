"""The frozen base, loaded by transformers from safetensors only, or initialised at random for a benchmark."""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import attention
from failure import bad_input
from fused import fuse
from pictures import PROCESSOR
from vision import Vision, open_vision, tower_name

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# The fingerprint hashes both ends of each weights file: reading all of a large model would take longer than loading it.
EDGE_BYTES = 1 << 16
# Length of each sequence in the check of a base.
CHECKED_TOKENS = 8


@dataclass(frozen=True)
class Base:
    """`decoder` returns the hidden states after the last norm; `head` [V, D] turns them into logits."""

    model: nn.Module
    decoder: nn.Module
    head: nn.Module
    vocabulary: int
    fingerprint: str
    kernel: str
    # Of a base whose layers are divided between ranks (sharding.py); else None.
    guard: Any = None
    # The tower of a vision-language base, whose `decoder` is its language model; else None.
    vision: Vision | None = None


def choose_device(wanted: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if wanted == "auto":
        wanted = "cuda" if has_cuda else "cpu"
    if wanted.startswith("cuda") and not has_cuda:
        raise bad_input(f"Device {wanted} needs a GPU, but this torch ({torch.__version__}) sees none; use device cpu, or a torch built for CUDA")
    device = torch.device(wanted)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    return device


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU and float32 elsewhere."""
    return DTYPES["bfloat16" if device.type == "cuda" else "float32"] if wanted == "auto" else DTYPES[wanted]


def load_base(path: str, device: torch.device, dtype: torch.dtype, checkpointing: bool, kernel: str = "auto", random_seed: int | None = None, shard: Any = None) -> Base:
    """`path`: a Hugging Face directory or a hub id. With `random_seed` it is a config.json (or its directory) and no weights are read. `shard(model, decoder)`
    brings a model that was loaded on the host to the device."""
    attention.register()
    folder = Path(path) if random_seed is not None else resolve(path)
    place = device if shard is None else torch.device("cpu")
    sees = tower_name(json.loads(_config_text(folder))) is not None
    model = _load(folder, place, dtype, sees) if random_seed is None else _random(folder, place, dtype, random_seed, sees)
    model.requires_grad_(False)
    model.eval()
    _check_head(model)
    _check_rotation(model)
    head, decoder = model.get_output_embeddings(), model.get_decoder()
    fuse(decoder if sees else model)
    if checkpointing:
        _checkpoint_layers(decoder)
    guard = None if shard is None else shard(model, decoder)
    vision = open_vision(model, folder if folder.is_dir() else folder.parent) if sees else None
    print_of = _fingerprint(folder) if random_seed is None else hashlib.sha256(f"{_config_text(folder)}{random_seed}".encode()).hexdigest()
    base = Base(model, decoder, head, head.weight.shape[0], print_of, attention.choose_kernel(device, dtype, kernel), guard, vision)
    _check_forward(base)
    return base


def resolve(path: str) -> Path:
    """The directory itself, or the model's directory in the hub's cache: configuration, tokenizer, safetensors and the card with the license, never code or pickles."""
    folder = Path(path)
    if not folder.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+", path) and not path.startswith("."):
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(path, allow_patterns=["*.json", "*.safetensors", "README.md"]))
        except Exception as error:
            raise bad_input(f"Cannot download {path}, which is neither a directory here nor a hub id that can be fetched: {_line(error)}") from error
    if not folder.is_dir():
        raise bad_input(f"model.path does not exist: {path}; name a Hugging Face directory")
    if not (folder / "config.json").is_file():
        raise bad_input(f"No config.json in {path}; name a Hugging Face model directory")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
        found = f"only {', '.join(pickles)}, and a pickle can run code; convert it with save_pretrained" if pickles else "no *.safetensors"
        raise bad_input(f"No safetensors weights in {path}: {found}")
    return folder


# The tower sees a picture as a whole, so that its attention is transformers' own.
ATTENTION_WITH_TOWER = {"": attention.NAME, "text_config": attention.NAME, "vision_config": "sdpa"}


def _load(folder: Path, device: torch.device, dtype: torch.dtype, sees: bool) -> nn.Module:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    try:
        model, report = kind.from_pretrained(
            str(folder),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            attn_implementation=ATTENTION_WITH_TOWER if sees else attention.NAME,
            output_loading_info=True,
        )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise bad_input(f"transformers cannot load {folder} as {'an image-text-to-text model' if sees else 'a causal language model'}: {_line(error)}") from error
    # transformers fills missing weights with random numbers and only warns.
    for kind in ("missing_keys", "mismatched_keys"):
        if wrong := sorted(str(key) for key in report[kind]):
            raise bad_input(f"The weights in {folder} do not fit the model, {kind.replace('_', ' ')}: {', '.join(wrong[:3])} ({len(wrong)} in all)")
    return model.to(device)


def _random(config_path: Path, device: torch.device, dtype: torch.dtype, seed: int, sees: bool) -> nn.Module:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(str(config_path), trust_remote_code=False, local_files_only=True)
    with torch.device(device):
        if sees:
            return AutoModelForImageTextToText.from_config(config, dtype=dtype, trust_remote_code=False, attn_implementation=ATTENTION_WITH_TOWER)
        return AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False, attn_implementation=attention.NAME)


def _check_head(model: nn.Module) -> None:
    """Logits must be the head's plain output: scaling or capping them afterwards is not reproduced here."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise bad_input(f"The LM head must be linear, got {type(head).__name__}; use another base")
    for key in ("final_logit_softcapping", "logit_scale", "logits_scaling", "output_multiplier_scale"):
        if getattr(model.config, key, None) not in (None, 1, 1.0):
            raise bad_input(f"Logits must be the LM head's plain output, but {key} is {getattr(model.config, key)}; use another base")


def _check_rotation(model: nn.Module) -> None:
    """A position's rotation must not depend on the batch: with `dynamic` and `longrope` it depends on the longest sequence in it, but not in vLLM."""
    parameters = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = {part.get("rope_type") for part in (parameters, *parameters.values()) if isinstance(part, dict)}
    if wrong := sorted(kinds & {"dynamic", "longrope"}):
        raise bad_input(f"Rotary embeddings of rope_type {wrong[0]} depend on the batch; use another base, or rope_type yarn")


def _check_forward(base: Base) -> None:
    """Runs two short sequences to refuse an untrainable base now rather than after sampling the first batch: one whose sequences affect their
    neighbours outside attention (convolutions, recurrent states) or do not start at position 0, or one that changes its logits in a way that
    `_check_head` does not know."""
    ids = torch.arange(3 * CHECKED_TOKENS, device=base.head.weight.device)[None] % base.vocabulary
    first, other, second = ids.split(CHECKED_TOKENS, dim=1)
    bounds = (0, CHECKED_TOKENS, 2 * CHECKED_TOKENS)
    packed, beside = (
        _call(base.model, torch.cat([neighbour, second], dim=1), bounds, base.kernel).logits[0, CHECKED_TOKENS:].float() for neighbour in (first, other)
    )
    hidden = _call(base.decoder, second, bounds[:2], base.kernel).last_hidden_state[0]
    with torch.no_grad():
        alone = base.head(hidden).float()
    is_half = hidden.dtype != torch.float32
    # In half precision, results vary slightly with the shape of a batch and hardly between batches of one shape.
    for found, what, bound in ((beside, "depend on the sequence before", 1e-2), (alone, "differ from the LM head's output for the sequence alone", 1e-1)):
        error = float((packed - found).norm() / packed.norm())
        # Written so that NaN fails too.
        if not error < (bound if is_half else 1e-3):
            raise bad_input(
                f"{type(base.model).__name__} cannot be trained on packed sequences: its logits {what} (relative difference {error:.1e}); use another base"
            )


def _call(module: nn.Module, ids: torch.Tensor, bounds: tuple[int, ...], kernel: str) -> Any:
    """ids [1, N], in sequences of CHECKED_TOKENS."""
    layout = attention.Layout(bounds, torch.tensor(bounds, dtype=torch.int32, device=ids.device), CHECKED_TOKENS, kernel)
    positions = torch.arange(ids.shape[1], device=ids.device)[None] % CHECKED_TOKENS
    with torch.no_grad():
        return module(input_ids=ids, position_ids=positions, use_cache=False, layout=layout)


def _checkpoint_layers(decoder: nn.Module) -> None:
    """Keeps only each layer's input. Non-reentrant, because the first layer's input comes from the frozen embedding and has no gradient."""
    layers = getattr(decoder, "layers", None)
    if layers is None:
        raise bad_input(f"gradient_checkpointing needs a base with a list of layers, but {type(decoder).__name__} has none; turn it off")
    for layer in layers:
        layer.forward = partial(_checkpointed, layer.forward)


def _checkpointed(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


def _config_text(path: Path) -> str:
    file = path / "config.json" if path.is_dir() else path
    return json.dumps(json.loads(file.read_text()), sort_keys=True)


def _fingerprint(folder: Path) -> str:
    """SHA-256 of the configuration and of every weights file's name, size and both ends (the first end holds names and shapes)."""
    digest = hashlib.sha256(_config_text(folder).encode())
    if tower_name(json.loads(_config_text(folder))) is not None:
        digest.update((folder / PROCESSOR).read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        size = os.path.getsize(file)
        digest.update(f"{file.name}:{size}".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(EDGE_BYTES))
            stream.seek(max(0, size - EDGE_BYTES))
            digest.update(stream.read(EDGE_BYTES))
    return digest.hexdigest()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
