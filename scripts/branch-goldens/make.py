"""The losses over rollouts with branches, by torch's autograd in float64 and from their formulas alone: writes test/golden/branches/losses.json.

    python scripts/branch-goldens/make.py > test/golden/branches/losses.json

A rollout is a list of branches, a branch a list of sampled tokens; a single sequence is a rollout of one branch. `algorithm.branches` chooses branches, and what
counts as one sequence is the rollout with the tokens of all of its chosen branches (`branch_weight` rollout), or each chosen branch (token). A ratio per sequence is
one per branch with both.
"""

import json
import platform
import random

import torch

COLUMNS = ("new", "old", "reference", "entropy")
# The lengths of the branches of each rollout: one branch; three, of which two are longest; two; none of its tokens is trained; two with an empty one.
ROLLOUTS = [[3], [2, 4, 4], [5, 1], [0], [2, 0]]
MAX_TOKENS = 16


def made_up(seed):
    rng = random.Random(seed)
    number = lambda low, high: round(rng.uniform(low, high), 4)
    rollouts = []
    for lengths in ROLLOUTS:
        branches = []
        for length in lengths:
            new = [number(-3, -0.05) for _ in range(length)]
            shifted = lambda by: [round(min(value + number(-by, by), -0.001), 4) for value in new]
            branches.append({"new": new, "old": shifted(0.5), "reference": shifted(1), "entropy": [number(0, 3) for _ in range(length)], "advantage": number(-2, 2)})
        rollouts.append(branches)
    return rollouts


def chosen(branches, rule):
    if rule == "all":
        return list(range(len(branches)))
    if rule == "last":
        return [len(branches) - 1]
    lengths = [len(branch["new"]) for branch in branches]
    return [lengths.index(max(lengths))]


def clip(ratio, advantage, low, high):
    return -torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - low, 1 + high) * advantage)


def k3(new, reference):
    return torch.exp(reference - new) - (reference - new) - 1


# Each gives the loss of every token of one branch, and of the entropy and KL terms with it.
def grpo(b, advantage):
    return clip(torch.exp(b["new"] - b["old"]), advantage, 0.2, 0.2) + 0.04 * k3(b["new"], b["reference"]) - 0.01 * b["entropy"]


def dapo(b, advantage):
    return clip(torch.exp(b["new"] - b["old"]), advantage, 0.2, 0.28)


def gspo(b, advantage):
    ratio = torch.exp((b["new"] - b["old"]).mean()) if len(b["new"]) else torch.zeros(())
    return clip(ratio.expand(len(b["new"])), advantage, 0.2, 0.2)


def cispo(b, advantage):
    return -torch.clamp(torch.exp(b["new"] - b["old"]), 0, 1.2).detach() * advantage * b["new"]


def importance(b, advantage):
    return -torch.exp(b["new"] - b["old"]) * advantage


def rpg(b, advantage):
    log_ratio = b["new"] - b["old"]
    return torch.exp(log_ratio) * (-advantage + 0.1 * log_ratio)


def nll(b, advantage):
    return -advantage * b["new"]


# The loss of a token, and how the losses of tokens become one number.
METHODS = {
    "grpo": (grpo, "sequence_mean"),
    "dr_grpo": (dapo, "constant"),
    "dapo": (dapo, "token_mean"),
    "gspo": (gspo, "sequence_mean"),
    "cispo": (cispo, "token_mean"),
    "rloo": (importance, "sequence_mean_token_sum"),
    "tinker": (importance, "sum"),
    "rpg": (rpg, "sequence_mean"),
    "nll": (nll, "sequence_mean"),
}


def aggregated(units, kind):
    """units: the token losses of each, a tensor."""
    trained = [unit for unit in units if len(unit)]
    total = lambda tensors: sum((tensor.sum() for tensor in tensors), torch.zeros((), dtype=torch.float64))
    if kind == "sum":
        return total(units)
    if kind == "token_mean":
        return total(units) / max(sum(len(unit) for unit in units), 1)
    if kind == "sequence_mean":
        return total([unit.mean() for unit in trained]) / max(len(trained), 1)
    if kind == "sequence_mean_token_sum":
        return total(units) / max(len(trained), 1)
    return total(units) / (max(len(units), 1) * MAX_TOKENS)


def solved(rollouts, method, weight, rule):
    token_loss, kind = METHODS[method]
    leaves = [[{name: torch.tensor(branch[name], dtype=torch.float64) for name in COLUMNS} for branch in branches] for branches in rollouts]
    for branch in (branch for branches in leaves for branch in branches):
        branch["new"].requires_grad_(True)
    units = []
    for branches, numbers in zip(leaves, rollouts):
        losses = [token_loss(branches[i], numbers[i]["advantage"]) for i in chosen(numbers, rule)]
        units += [torch.cat(losses)] if weight == "rollout" else losses
    loss = aggregated(units, kind)
    if loss.requires_grad:
        loss.backward()
    gradient = [[(branch["new"].grad if branch["new"].grad is not None else torch.zeros_like(branch["new"])).tolist() for branch in branches] for branches in leaves]
    return {"method": method, "branch_weight": weight, "branches": rule, "loss": loss.item(), "gradient": gradient}


def main():
    sets = []
    for seed in (1, 2):
        rollouts = made_up(seed)
        cases = [solved(rollouts, method, weight, rule) for method in METHODS for weight in ("rollout", "token") for rule in ("all", "longest", "last")]
        sets.append({"rollouts": rollouts, "cases": cases})
    stamp = {"script": "scripts/branch-goldens/make.py", "torch": torch.__version__, "python": platform.python_version(), "dtype": "float64, autograd"}
    print(json.dumps({"made_by": stamp, "max_tokens": MAX_TOKENS, "sets": sets}, separators=(",", ":")).replace("{\"method\"", "\n{\"method\""))


if __name__ == "__main__":
    main()
