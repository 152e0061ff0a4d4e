"""Makes the modules of scripts/nano and scripts/nano-coder importable: the tokenizer's checks, padding, Muon."""

import pathlib
import sys

for folder in ("nano", "nano-coder"):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / folder))
