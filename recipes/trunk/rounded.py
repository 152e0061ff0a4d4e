"""Rounds the weights of a model to values of bfloat16, stored as float32: half the space in a package, and the same numbers in every engine.

    python -m recipes.trunk.rounded DIR
"""

import pathlib

from safetensors.torch import load_file, save_file

from .commands import command_parser


def rounded(weights):
    return {name: tensor.detach().bfloat16().float() for name, tensor in weights.items()}


def main():
    parser = command_parser(__doc__)
    parser.add_argument("model", type=pathlib.Path, help="model directory; its model.safetensors is replaced")
    path = parser.parse_args().model / "model.safetensors"
    save_file(rounded(load_file(path)), path, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
