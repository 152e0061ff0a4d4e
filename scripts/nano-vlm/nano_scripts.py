"""Makes the modules of scripts/nano importable: model, tokenizer, training."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "nano"))
