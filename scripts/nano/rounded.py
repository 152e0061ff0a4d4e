"""Rounds the weights of a model to values of bfloat16, stored as float32: half the space in a package, and the same numbers in every engine.

    python scripts/nano/rounded.py DIR
"""

import argparse
import pathlib

from safetensors.torch import load_file, save_file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="model directory; its model.safetensors is replaced")
    path = parser.parse_args().model / "model.safetensors"
    rounded = {name: tensor.bfloat16().float() for name, tensor in load_file(path).items()}
    save_file(rounded, path, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
