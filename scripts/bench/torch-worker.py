#!/usr/bin/env python3
"""Measures the torch worker's training speed with its own modules in this process and random weights of real shapes. A step is forward, backward and Adam.

    python scripts/bench/torch-worker.py --shape qwen3-4b --tokens 16384 --sequence 16384 --steps 5
    python scripts/bench/torch-worker.py --shape nano --tokens 2048 --sequence 512 --steps 3 --device cpu
    python scripts/bench/torch-worker.py --shape qwen2.5-vl-7b --tokens 8192 --sequence 2048 --pictures 2 --side 20 --checkpointing

Prints one JSON line on stdout and a table on stderr. `tokens_per_s` counts all forwarded tokens, `trained_tokens_per_s` only targets (--trained sets
their share). Speeds are of the median step, after two warm-up steps. With --pictures, steps on a batch with pictures take turns with steps on text of the same
length and with the same targets, the tower's outputs cached; `of_text_speed` is the ratio of their median steps, and the other figures are of the pictured ones.

MFU is the number of mathematically required operations over the card's dense bfloat16 peak. Recomputation (checkpointing, the head's logits, inside the
attention kernel) is not counted:
    linear layers   4 N per token: 2 N forward, 2 N for the gradient of the input (the base is frozen and needs no other gradient)
    LoRA            6 r (in + out) per token and layer
    LM head         4 V D per target
    attention       6 S^2 H d per sequence of S tokens and layer: causal, 2 products forward (2 S^2 H d), 4 backward
"""

import argparse
import hashlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src/trainer/gradients/torch"))
sys.dont_write_bytecode = True
# As in worker.py.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from base import Base, choose_device, choose_dtype, load_base  # noqa: E402
from lora import Adapter, attach  # noqa: E402
from batch import Batch  # noqa: E402
from model import Model  # noqa: E402
from pictures import PlacedPicture  # noqa: E402
from PIL import Image  # noqa: E402
from vision import Vision  # noqa: E402

# As transformers needs them: config.json without weights.
PLAN = json.loads((ROOT / "scripts/gpu-check/plan.json").read_text())
SHAPES = {
    **{name: shape["config"] for name, shape in PLAN["shapes"].items() if not shape["tiny"]},
    "nano": {
        **PLAN["shapes"]["tiny-qwen3"]["config"], "vocab_size": 1600, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rope_theta": 1e4,
    },
}
VISION = {
    "qwen2.5-vl-7b": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "image_token_id": 151655, "tie_word_embeddings": False,
        "text_config": {
            "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "max_position_embeddings": 128000, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        "vision_config": {
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31], "out_hidden_size": 3584,
        },
    },
    "nano-vl": {
        "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "image_token_id": 1590, "tie_word_embeddings": True,
        "text_config": {
            "vocab_size": 1600, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 32, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [6, 5, 5], "mrope_interleaved": True},
        },
        "vision_config": {
            "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "patch_size": 16, "spatial_merge_size": 2, "out_hidden_size": 128,
            "num_position_embeddings": 256, "deepstack_visual_indexes": [0],
        },
    },
}
TARGETS = PLAN["targets"]
# Dense bfloat16 TFLOP/s from the data sheets, by the driver's name of the card; the first match counts.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "GH200": 989, "B200": 2250, "A100": 312, "L40S": 362, "RTX 4090": 165}
WARM_UP = 2


def main() -> None:
    options = parse()
    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device)
    if device.type == "cpu" and options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        write_base(Path(folder), options.shape)
        base = load_base(folder, device, dtype, options.checkpointing, options.attention, random_seed=0)
        adapter = attach(base, options.rank, 2 * options.rank, TARGETS, seed=0)
        batch = make_batch(options.tokens, options.sequence, options.trained, base.vocabulary)
        text = batch
        if options.pictures:
            if base.vision is None:
                raise SystemExit(f"torch-worker: --pictures needs a shape with a tower, {' or '.join(VISION)}, got {options.shape}")
            base.vision.use(folder, 1 << 40)
            text, batch = pictured(batch, options, base.vision, Path(folder))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        model = Model(base, adapter)
        model.see(batch)
        found = measure(model, [text, batch] if options.pictures else [batch], options.steps)
    report(options, base, device, dtype, batch, found, flops(shape_of(options.shape), adapter, batch))


def write_base(folder: Path, shape: str) -> None:
    config = VISION.get(shape) or SHAPES[shape]
    (folder / "config.json").write_text(json.dumps(config))
    if tower := config.get("vision_config"):
        processor = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": tower["patch_size"], "temporal_patch_size": 2, "merge_size": tower["spatial_merge_size"]}
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def shape_of(name: str) -> dict[str, int]:
    shape = SHAPES.get(name) or VISION[name]["text_config"]
    return {"head_dim": shape["hidden_size"] // shape["num_attention_heads"], **shape}


def pictured(batch: Batch, options: argparse.Namespace, vision: Vision, folder: Path) -> tuple[Batch, Batch]:
    """The batch without the targets that pictures would cover, and the same with pictures in their places: evenly spread over each sequence."""
    tokens, side = options.side**2, options.side * vision.pictures.unit
    random, ids, placed = numpy.random.default_rng(1), batch.ids.copy(), []
    for sequence, (start, end) in enumerate(zip(batch.offsets, batch.offsets[1:])):
        gap = (end - start) // options.pictures
        if gap < tokens + 2:
            raise SystemExit(f"torch-worker: {options.pictures} pictures of {tokens} tokens do not fit into a sequence of {end - start}")
        for i in range(options.pictures):
            stream = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=numpy.uint8)).save(stream, "PNG")
            name = hashlib.sha256(stream.getvalue()).hexdigest()
            (folder / f"{name}.png").write_bytes(stream.getvalue())
            placed.append(PlacedPicture(sequence, name, int(start + i * gap + 1), tokens))
    for picture in placed:
        ids[picture.offset : picture.offset + picture.length] = vision.pad
    targets = batch.targets[ids[batch.targets] != vision.pad]
    return replace(batch, targets=targets), replace(batch, ids=ids, targets=targets, pictures=tuple(placed))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=[*SHAPES, *VISION], default="nano")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens per batch (default 2048)")
    parser.add_argument("--sequence", type=int, default=512, help="tokens per sequence; the last may be shorter (default 512)")
    parser.add_argument("--trained", type=float, default=1.0, help="share of tokens that are targets (default 1, the most expensive)")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=0, help="pictures in each sequence (default 0)")
    parser.add_argument("--side", type=int, default=8, help="tokens on each side of a picture (default 8)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16"], default="auto")
    parser.add_argument("--attention", choices=["auto", "varlen", "sdpa"], default="auto", help="varlen: one kernel call for all sequences; sdpa: one call per sequence")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--threads", type=int, help="CPU threads")
    return parser.parse_args()


def make_batch(tokens: int, sequence: int, trained: float, vocabulary: int) -> Batch:
    random = numpy.random.default_rng(0)
    offsets = numpy.append(numpy.arange(0, tokens, sequence), tokens).astype(numpy.int32)
    wanted = random.random(tokens) < trained
    wanted[offsets[:-1]] = False
    wanted[1] = True
    return Batch(random.integers(0, vocabulary, tokens, dtype=numpy.int32), offsets, numpy.flatnonzero(wanted).astype(numpy.int32), 1.0)


def measure(model: Model, batches: list[Batch], steps: int) -> list[list[tuple[float, float, float]]]:
    """Seconds of forward, backward and Adam for each step of each batch, which take turns; each waits for its result."""
    times: list[list[tuple[float, float, float]]] = [[] for _ in batches]
    for turn in range((WARM_UP + steps) * len(batches)):
        batch = batches[turn % len(batches)]
        gradient = numpy.full(len(batch.targets), 1.0 / len(batch.targets), numpy.float32)
        began = time.perf_counter()
        model.forward(batch, "batch", "on", False)
        forwarded = time.perf_counter()
        model.backward("batch", gradient, None)
        backwarded = time.perf_counter()
        _, norm, skipped = model.optim_step(1e-5, (0.9, 0.999), 1e-8, 0.0, 1.0)
        if skipped:
            raise SystemExit(f"torch-worker: the gradient is not finite, its norm is {norm}")
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        times[turn % len(batches)].append((forwarded - began, backwarded - forwarded, time.perf_counter() - backwarded))
    return [each[WARM_UP:] for each in times]


def flops(shape: dict[str, int], adapter: Adapter, batch: Batch) -> float:
    """Operations of one step, by the formula at the top of this file."""
    layers = adapter.layers.values()
    linear = sum(layer.in_features * layer.out_features for layer in layers)
    lora = sum(adapter.rank * (layer.in_features + layer.out_features) for layer in layers)
    lengths = numpy.diff(batch.offsets).astype(numpy.float64)
    attention = 6.0 * (lengths**2).sum() * shape["num_attention_heads"] * shape["head_dim"] * shape["num_hidden_layers"]
    head = 4.0 * shape["vocab_size"] * shape["hidden_size"] * len(batch.targets)
    return (4.0 * linear + 6.0 * lora) * len(batch.ids) + head + attention


def report(
    options: argparse.Namespace, base: Base, device: torch.device, dtype: torch.dtype, batch: Batch, found: list[list[tuple[float, float, float]]], work: float
) -> None:
    times = found[-1]
    is_cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_cuda else "CPU"
    peak = next((tflops * 1e12 for part, tflops in PEAKS.items() if part in name), None)
    step = statistics.median(sum(parts) for parts in times)
    forward, backward, adam = (statistics.median(parts[i] for parts in times) for i in range(3))
    result = {
        "shape": options.shape,
        "parameters": sum(p.numel() for p in base.model.parameters() if not p.requires_grad),
        "rank": options.rank,
        "tokens": len(batch.ids),
        "sequence": options.sequence,
        "targets": len(batch.targets),
        "picture_tokens": sum(picture.length for picture in batch.pictures),
        "steps": options.steps,
        "device": name,
        "dtype": str(dtype).removeprefix("torch."),
        "attention": base.kernel,
        "checkpointing": options.checkpointing,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": None if is_cuda else torch.get_num_threads(),
        "step_s": round(step, 4),
        "forward_s": round(forward, 4),
        "backward_s": round(backward, 4),
        "adam_s": round(adam, 4),
        "tokens_per_s": round(len(batch.ids) / step, 1),
        "trained_tokens_per_s": round(len(batch.targets) / step, 1),
        "tflops_per_s": round(work / step / 1e12, 3),
        "of_text_speed": None if len(found) == 1 else round(statistics.median(sum(parts) for parts in found[0]) / step, 3),
        "mfu": None if peak is None else round(work / step / peak, 4),
        "peak_memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if is_cuda else None,
    }
    for key, value in result.items():
        print(f"{key:>22}  {value}", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
