"""GRPO loss and its gradient by the log-probs, by TRL's trainer and by torch's autograd of the bare formula, on the batch of
scripts/bench/policy-loss.ts. One thread.

    python trl_loss.py BATCH GRADIENTS    answers each line "N" on stdin with the median CPU milliseconds of N runs of each, as one line of JSON

BATCH: float64 arrays one after another: offsets [B + 1], then mask, log-probs, old, advantages, reference [N each]; sizes on the first line of stdin.
GRADIENTS: TRL's float64 gradient [N], written before the first answer, so that the bench can check that both compute the same thing.

trl: GRPOTrainer._compute_loss with its metrics (loss_type bnpo is the token mean) and backward; sequences padded to the longest, as TRL does.
autograd: only the formula, without padding and metrics: the core of TRL's cost."""

import collections
import json
import statistics
import sys
import time
import types

import torch

torch.set_num_threads(1)
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

CLIP_LOW, CLIP_HIGH, BETA = 0.2, 0.28, 1e-3
COLUMNS = ("mask", "new", "old", "advantages", "reference")


def read_batch(path, sequences, tokens):
    flat = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.float64)
    lengths = flat[: sequences + 1].diff().long().tolist()
    return lengths, dict(zip(COLUMNS, flat[sequences + 1 :].split(tokens), strict=True))


def autograd(batch):
    new = batch["new"].detach().requires_grad_()
    ratio = (new - batch["old"]).exp()
    distance = batch["reference"] - new
    clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    loss = -torch.min(ratio * batch["advantages"], clipped * batch["advantages"]) + BETA * (distance.exp() - distance - 1)
    ((loss * batch["mask"]).sum() / batch["mask"].sum()).backward()
    return new.grad


def trl(batch):
    new = batch["new"].detach().requires_grad_()
    one_process = types.SimpleNamespace(
        num_processes=1, sync_gradients=True, reduce=lambda tensor, reduction=None: tensor, gather=lambda tensor: tensor
    )
    trainer = types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (new, batch["entropies"], None),
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        _entropy_bonus_enabled=False,
        accelerator=one_process,
        args=types.SimpleNamespace(use_bias_correction_kl=False, delta=None),
        aux_loss_enabled=False,
        beta=BETA,
        current_gradient_accumulation_steps=1,
        epsilon_high=CLIP_HIGH,
        epsilon_low=CLIP_LOW,
        importance_sampling_level="token",
        loss_type="bnpo",
        model=types.SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
    )
    GRPOTrainer._compute_loss(trainer, None, batch["inputs"]).backward()
    return new.grad


def padded(batch, lengths):
    rows = {name: torch.nn.utils.rnn.pad_sequence(column.split(lengths), batch_first=True) for name, column in batch.items()}
    ids = torch.zeros(rows["new"].shape, dtype=torch.long)
    prompt = torch.ones(len(lengths), 1, dtype=torch.long)
    inputs = {
        "prompt_ids": prompt,
        "prompt_mask": prompt,
        "completion_ids": ids,
        "completion_mask": rows["mask"],
        "advantages": rows["advantages"][:, 0].contiguous(),
        "old_per_token_logps": rows["old"],
        "ref_per_token_logps": rows["reference"],
    }
    return {"new": rows["new"], "entropies": torch.zeros_like(rows["new"]), "inputs": inputs}


def median_ms(compute, batch, runs):
    seconds = []
    for _ in range(runs):
        before = time.process_time()
        compute(batch)
        seconds.append(time.process_time() - before)
    return statistics.median(seconds) * 1e3


def main():
    path, gradients = sys.argv[1:]
    sequences, tokens = map(int, sys.stdin.readline().split())
    lengths, batch = read_batch(path, sequences, tokens)
    cases = {}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        flat = {column: values.to(dtype) for column, values in batch.items()}
        cases[f"autograd_{name}"] = (autograd, flat)
        cases[f"trl_{name}"] = (trl, padded(flat, lengths))
    compute, own = cases["trl_float64"]
    rows = [row[:length] for row, length in zip(compute(own), lengths, strict=True)]
    with open(gradients, "wb") as file:
        file.write(torch.cat(rows).numpy().tobytes())
    for line in sys.stdin:
        print(json.dumps({name: median_ms(*case, int(line)) for name, case in cases.items()}), flush=True)


main()
