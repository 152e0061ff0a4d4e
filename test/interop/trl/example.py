"""Runs examples/trl_train.py, as a user does, without a model and for one step with a held-out evaluation. Argument: the repository. Prints a line of JSON."""

import json
import os
import subprocess
import sys

root = sys.argv[1]
out = os.path.abspath("out")
world = json.dumps({"dataset": "fact-world", "corpus": "fact-world", "max_turns": 2})


def example(*args):
    command = [sys.executable, "examples/trl_train.py", *args, "--output", out]
    env = os.environ | {"PYTHONPATH": os.path.join(root, "python"), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)


refused = example("search-r1", "--model", "nowhere")
ran = example("search-r1", "--args", world, "--steps", "1", "--batch", "8", "--eval", "1", "--max-completion-length", "64")
print(json.dumps({"refused": [refused.returncode, refused.stdout, refused.stderr], "ran": [ran.returncode, ran.stdout[-200:], ran.stderr[-2000:]]}))
