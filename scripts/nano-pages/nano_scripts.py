"""Makes the modules of scripts/nano importable: model, names, training."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "nano"))
