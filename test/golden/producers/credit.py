"""Writes test/golden/credit.json: advantages of whole batches as the formulas of the papers give them, in numpy's float64.

    python3 -m venv /tmp/credit && /tmp/credit/bin/pip install numpy
    /tmp/credit/bin/python test/golden/producers/credit.py

It shares no code with the port. A batch is a list of rows; a row a list of rollouts; a rollout has a reward R, its turns (number of tokens, and the reward of the
turn or null), and log-probs of its tokens under the sampler and the reference. `advantages` has one for each token. Formulas, where eps is `epsilon`:

- grpo, arXiv 2402.03300, 4.1.1: A_i = (R_i - mean(R)) / (std(R) + eps) over the rollouts of a row; every token has A_i.
- dr_grpo, arXiv 2503.20783, 3.2: A_i = R_i - mean(R).
- rloo, arXiv 2402.14740, eq. 6: A_i = R_i - mean of the other rewards of the row.
- reinforce_pp, arXiv 2501.03262, eq. 4-6: A_t = R - beta * sum of KL_s over s >= t, then (A_t - mean) / sqrt(var + 1e-8) over all tokens of the batch (verl's
  whitening, var with n - 1). KL by k1: log p - log q, or k2: its square / 2.
- reinforce_pp_baseline, the same paper, 3.3: R_i - mean(R) of its row, then (A - mean) / sqrt(var + 1e-8) over all tokens of the batch.
- mt_grpo, arXiv 2505.11821, for any number of turns. returns: G_k = r_k + gamma * G_(k+1), G_K = r_K + R, compared with the same turn of the row's rollouts (turn) or
  with all turns of the row (all) as GRPO compares. sum: GRPO's A of R, plus turn_weight * GRPO's A of r_k among the rollouts with a reward in turn k.
  A value that is compared with nothing is 0.
"""

import json
import pathlib
import platform

import numpy as np

rng = np.random.default_rng(37)


def std_of(values: np.ndarray, kind: str) -> float:
    return float(np.std(values, ddof=1 if kind == "sample" else 0))


def compared(values: list, kind: str, eps: float) -> list:
    """GRPO's comparison of one group; 0 for one alone and for equal values."""
    v = np.asarray(values, dtype=np.float64)
    if len(v) < 2 or np.all(v == v[0]):
        return [0.0] * len(v)
    centred = v - v.mean()
    return list(centred if kind == "none" else centred / (std_of(v, kind) + eps))


def per_token(rollout: dict, values: list) -> list:
    """One value for each turn, repeated over its tokens."""
    return [float(value) for turn, value in zip(rollout["turns"], values) for _ in range(turn["tokens"])]


def whole(batch: list, values: list) -> list:
    return [[per_token(rollout, [value] * len(rollout["turns"])) for rollout, value in zip(row, own)] for row, own in zip(batch, values)]


def grpo(batch, config):
    return whole(batch, [compared([r["reward"] for r in row], config["std"], config["epsilon"]) for row in batch])


def rloo(batch, config):
    values = []
    for row in batch:
        rewards = [r["reward"] for r in row]
        values.append([reward - np.mean(rewards[:i] + rewards[i + 1 :]) for i, reward in enumerate(rewards)])
    return whole(batch, values)


def whitened(batch, raw):
    """raw: per rollout, a value for each token."""
    every = np.concatenate([np.asarray(own) for row in raw for own in row])
    mean, var = every.mean(), every.var(ddof=1)
    return [[[float(v) for v in (np.asarray(own) - mean) / np.sqrt(var + 1e-8)] for own in row] for row in raw]


def reinforce_pp(batch, config):
    raw = []
    for row in batch:
        own = []
        for rollout in row:
            d = np.asarray(rollout["log_probs"]) - np.asarray(rollout["reference_log_probs"])
            kl = d if config["estimator"] == "k1" else d**2 / 2
            own.append(rollout["reward"] - config["beta"] * np.cumsum(kl[::-1])[::-1])
        raw.append(own)
    return whitened(batch, raw)


def reinforce_pp_baseline(batch, config):
    raw = []
    for row in batch:
        mean = np.mean([r["reward"] for r in row])
        raw.append([[r["reward"] - mean] * sum(t["tokens"] for t in r["turns"]) for r in row])
    return whitened(batch, raw)


def mt_returns(batch, config):
    out = []
    for row in batch:
        returns = []
        for rollout in row:
            own = [t["reward"] or 0.0 for t in rollout["turns"]]
            own[-1] += rollout["reward"]
            for k in range(len(own) - 2, -1, -1):
                own[k] += config["gamma"] * own[k + 1]
            returns.append(own)
        places = [(i, k) for i, own in enumerate(returns) for k in range(len(own))]
        groups = [places] if config["compare"] == "all" else [[p for p in places if p[1] == k] for k in range(max(map(len, returns)))]
        advantages = [[0.0] * len(own) for own in returns]
        for group in groups:
            for (i, k), a in zip(group, compared([returns[i][k] for i, k in group], config["std"], config["epsilon"])):
                advantages[i][k] = a
        out.append([per_token(rollout, own) for rollout, own in zip(row, advantages)])
    return out


def mt_sum(batch, config):
    out = []
    for row in batch:
        outcome = compared([r["reward"] for r in row], config["std"], config["epsilon"])
        advantages = [[a] * len(r["turns"]) for r, a in zip(row, outcome)]
        for k in range(max(len(r["turns"]) for r in row)):
            known = [i for i, r in enumerate(row) if k < len(r["turns"]) and r["turns"][k]["reward"] is not None]
            own = compared([row[i]["turns"][k]["reward"] for i in known], config["std"], config["epsilon"]) if known else []
            for i, a in zip(known, own):
                advantages[i][k] += config["turn_weight"] * a
        out.append([per_token(rollout, own) for rollout, own in zip(row, advantages)])
    return out


METHODS = {
    "grpo": grpo,
    "dr_grpo": lambda batch, config: grpo(batch, {**config, "std": "none", "epsilon": 0}),
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "mt_grpo_returns": mt_returns,
    "mt_grpo_sum": mt_sum,
}
COMPARED = [{"std": "sample", "epsilon": 1e-4}, {"std": "sample", "epsilon": 1e-6}, {"std": "population", "epsilon": 1e-8}]
CONFIGS = {
    "grpo": COMPARED,
    "dr_grpo": [{}],
    "rloo": [{}],
    "reinforce_pp": [{"beta": beta, "estimator": estimator} for beta in (0.01, 0.5) for estimator in ("k1", "k2")],
    "reinforce_pp_baseline": [{}],
    "mt_grpo_returns": [{**c, "gamma": gamma, "compare": compare} for c in COMPARED[:2] for gamma in (1.0, 0.9, 0.0) for compare in ("turn", "all")],
    "mt_grpo_sum": [{**c, "turn_weight": weight} for c in COMPARED[:2] for weight in (1.0, 0.5)],
}


def rollout() -> dict:
    # In eighths, so that sums are exact and equal rewards are equal.
    turns = [
        {"tokens": int(rng.integers(1, 5)), "reward": None if rng.random() < 0.4 else float(rng.integers(-4, 9)) / 8} for _ in range(rng.integers(1, 5))
    ]
    tokens = sum(turn["tokens"] for turn in turns)
    draw = lambda: [float(value) for value in -rng.gamma(1.0, 1.0, tokens)]
    return {"reward": float(rng.integers(0, 9)) / 8, "turns": turns, "log_probs": draw(), "reference_log_probs": draw()}


def main() -> None:
    cases = []
    for method, configs in CONFIGS.items():
        for config in configs:
            for sizes in ([4, 4], [2, 5, 3], [8]):
                batch = [[rollout() for _ in range(size)] for size in sizes]
                cases.append({"method": method, "config": config, "batch": batch, "advantages": METHODS[method](batch, config)})
    made_by = {"script": "test/golden/producers/credit.py", "numpy": np.__version__, "python": platform.python_version(), "seed": 37}
    path = pathlib.Path(__file__).parent.parent / "credit.json"
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text('{"made_by":' + json.dumps(made_by) + ',"cases":[\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
