"""The gradient of one optimiser step by torch autograd in float64, loss included: GRPO's clip over all tokens, k3 against the base within 10, entropy bonus.

Reads {"model": DIR, "cases": [...]} from stdin, writes {PEFT tensor name: values} for each case to stdout, all JSON. A case: `adapter` (a PEFT directory),
`temperature`, `clip_low`, `clip_high`, `kl`, `entropy` (coefficients) and `sequences`: [{ids, targets, old_log_probs, advantage}].
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).parent / "gradients" / "torch"))
from reference import as_lists, load_adapter, log_probs, merged


def loss_of(model, leaves, scale, case):
    weights = merged(model, leaves, scale)
    total, tokens = 0.0, sum(len(sequence["targets"]) for sequence in case["sequences"])
    for sequence in case["sequences"]:
        if not sequence["targets"]:
            continue
        batch = {**sequence, "offsets": [0, len(sequence["ids"])], "temperature": case["temperature"]}
        current, entropy = log_probs(model, weights, batch)
        with torch.no_grad():
            base, _ = log_probs(model, dict(model.named_parameters()), batch)
        ratio = torch.exp(current - torch.tensor(sequence["old_log_probs"], dtype=torch.float64))
        clipped = torch.clamp(ratio, 1 - case["clip_low"], 1 + case["clip_high"])
        surrogate = torch.minimum(ratio * sequence["advantage"], clipped * sequence["advantage"])
        k3 = torch.clamp(torch.exp(base - current) - (base - current) - 1, -10, 10)
        total = total + (-surrogate + case["kl"] * k3 - case["entropy"] * entropy).sum() / tokens
    return total


def solve(model, case):
    leaves, scale = load_adapter(case["adapter"])
    loss_of(model, leaves, scale, case).backward()
    return as_lists({name: leaf.grad for name, leaf in leaves.items()})


def main():
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(request["model"], dtype=torch.float64, attn_implementation="eager")
    model.requires_grad_(False)
    json.dump([solve(model, case) for case in request["cases"]], sys.stdout)


if __name__ == "__main__":
    main()
