"""Makes the modules of scripts/nano and scripts/nano-coder importable: the model, its sampler, names, the optimizer."""

import pathlib
import sys

for _folder in ("nano", "nano-coder"):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / _folder))
