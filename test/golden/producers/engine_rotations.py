"""Writes test/golden/engine/rotations.json: cosines and sines of transformers' rotary embedding at near and far positions.

python test/golden/producers/engine_rotations.py (any Python with transformers 5 and torch)
"""

import importlib.metadata
import json
import pathlib

import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

ROOT = pathlib.Path(__file__).resolve().parents[3]
# head_dim, rope_theta, positions
CASES = [(32, 10_000.0, [0, 1, 2, 3, 10, 99, 1000, 2047]), (128, 1_000_000.0, [0, 1, 5, 1023, 40_959])]


def rotations(head_dim: int, theta: float, positions: list[int]) -> dict:
    config = Qwen3Config(head_dim=head_dim, rope_parameters={"rope_type": "default", "rope_theta": theta})
    cos, sin = Qwen3RotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
    half = head_dim // 2
    rows = torch.cat((cos[0, :, :half], sin[0, :, :half]), dim=-1)
    return {"head_dim": head_dim, "rope_theta": theta, "rows": [{"position": p, "values": row.tolist()} for p, row in zip(positions, rows, strict=True)]}


def main() -> None:
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "torch")}
    golden = {"producer": "test/golden/producers/engine_rotations.py", **versions, "cases": [rotations(*case) for case in CASES]}
    target = ROOT / "test/golden/engine/rotations.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
