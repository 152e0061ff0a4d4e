"""Makes the modules of scripts/nano importable: model, sampler, byte_pairs, training. `add` does so for another folder of scripts."""

import pathlib
import sys


def add(folder):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / folder))


add("nano")
