"""python torch_step.py MODEL BATCH.json answers each line on stdin with one JSON line: CPU seconds of forward and backward on one thread, the first sequence's log-probs, the gradient's norm.

BATCH.json: {"ids": [B][T], "first_target": int, "rank": int, "alpha": number, "d_log_probs": [B * (T - first_target)]}. The adapter is the one of test/golden/producers/engine.py.
"""

import json
import pathlib
import sys
import time

import numpy
import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "golden"))
from engine import adapt  # noqa: E402

torch.set_num_threads(1)
case = json.loads(pathlib.Path(sys.argv[2]).read_text())
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="sdpa").eval()
model.requires_grad_(False)
parameters = adapt(model, case["rank"], case["alpha"])
ids, first = torch.tensor(case["ids"]), case["first_target"]
d_log_probs = torch.tensor(case["d_log_probs"]).reshape(ids[:, first:].shape)


def step():
    hidden = model.model(ids[:, :-1]).last_hidden_state[:, first - 1 :]
    rows = model.lm_head(hidden).log_softmax(-1)
    log_probs = rows.gather(-1, ids[:, first:, None])[..., 0]
    (log_probs * d_log_probs).sum().backward()
    norm = numpy.sqrt(sum(float(p.grad.double().pow(2).sum()) for p in parameters.values()))
    for p in parameters.values():
        p.grad = None
    return log_probs, norm


for _ in sys.stdin:
    before = time.process_time()
    log_probs, norm = step()
    print(json.dumps({"seconds": time.process_time() - before, "log_probs": log_probs[0].tolist(), "norm": norm}), flush=True)
