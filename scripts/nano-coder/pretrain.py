"""Pre-trains the nano coder: good replies first, then replies with good and bad habits.

    python scripts/nano-coder/coder_tokenizer.py --out DIR && python scripts/nano-coder/pretrain.py --out DIR [--steps N] [--threads 1]

Deterministic for a seed and a number of threads. Held-out programs of datasets/mini-python never occur. With --start it goes on from other weights.
"""

import argparse
import math
import pathlib
import random
import time

import nano_scripts  # noqa: F401
import torch
import torch.nn.functional as F
from coder_tokenizer import CONTEXT, END, load_tokenizer, prompt_text
from episodes import PROPOSERS, draw_episode
from model import EMBEDDING, NanoConfig, forward, init_weights, load_model, save_model
from muon import Muon

from tasks import held_out_codes

PROMPT_WEIGHT = 0.05
FINAL_LR_SHARE = 0.03
MICRO_BATCH = 32


class Encoder:
    """Token ids of prompts (with the chat template) and replies (with the token that ends them)."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id(END)

    def __call__(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def row(self, prompt, reply):
        return self(prompt_text(prompt)), [*self(reply), self.end]


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def learning_rate(progress, step, arguments):
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return min(1, (step + 1) / arguments.warmup) * (FINAL_LR_SHARE + (1 - FINAL_LR_SHARE) * cosine)


def optimizers(weights, arguments):
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [t for name, t in weights.items() if t.dim() == 2 and name != EMBEDDING]
    others = [t for name, t in weights.items() if t.dim() != 2 or name == EMBEDDING]
    return [(Muon(matrices, arguments.lr), arguments.lr), (torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0), arguments.other_lr)]


def train_step(config, weights, rows):
    """Accumulates the gradient of one step; returns the mean loss over tokens of replies."""
    rows = sorted(rows, key=lambda row: len(row[0]) + len(row[1]))
    total = sum(len(reply) + PROMPT_WEIGHT * len(prompt) for prompt, reply in rows)
    loss_sum = count = 0.0
    for at in range(0, len(rows), MICRO_BATCH):
        part = rows[at : at + MICRO_BATCH]
        ids = pad([prompt + reply for prompt, reply in part])
        weight = pad([[PROMPT_WEIGHT] * (len(prompt) - 1) + [1.0] * len(reply) for prompt, reply in part])
        where = weight > 0
        losses = F.cross_entropy(forward(config, weights, ids[:, :-1], (), where), ids[:, 1:][where], reduction="none")
        ((losses * weight[where]).sum() / total).backward()
        own = weight[where] == 1
        loss_sum += losses.detach()[own].sum().item()
        count += own.sum().item()
    return loss_sum / count


def train(arguments):
    tokenizer = load_tokenizer(arguments.out)
    encode = Encoder(tokenizer)
    if arguments.start:
        config, weights = load_model(arguments.start)
    else:
        config = NanoConfig(vocabulary=tokenizer.get_vocab_size(), context=CONTEXT)
        weights = init_weights(config, arguments.seed)
    for tensor in weights.values():
        tensor.requires_grad_()
    steppers = optimizers(weights, arguments)
    print(f"{sum(t.numel() for t in weights.values())} parameters, {config.vocabulary} tokens", flush=True)
    rng, forbidden = random.Random(arguments.seed), held_out_codes()
    started, cpu, smooth = time.monotonic(), time.process_time(), None
    last = arguments.stop_at or arguments.steps
    for step in range(last):
        progress = step / arguments.steps
        for optimizer, rate in steppers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = rate * learning_rate(progress, step, arguments)
        rows = [encode.row(*draw_episode(rng, progress < arguments.habits_from, forbidden, arguments.proposer)) for _ in range(arguments.batch)]
        loss = train_step(config, weights, rows)
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        for optimizer, _ in steppers:
            optimizer.step()
        smooth = loss if smooth is None else 0.97 * smooth + 0.03 * loss
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {smooth:.3f} wall {time.monotonic() - started:.0f} cpu {time.process_time() - cpu:.0f}", flush=True)
        if (step + 1) % arguments.save_every == 0 or step + 1 == last:
            save_model(config, weights, tokenizer, arguments.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory that contains tokenizer.json")
    parser.add_argument("--start", help="model directory to start from (default: random weights)")
    parser.add_argument("--steps", type=int, default=2600)
    parser.add_argument("--stop-at", type=int, help="stop after this step of the schedule, to go on with another mix")
    parser.add_argument("--batch", type=int, default=64, help="episodes per step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=4e-3, help="of the matrices (default: %(default)s)")
    parser.add_argument("--other-lr", type=float, default=3e-3, help="of embeddings and norms (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--habits-from", type=float, default=0.8, help="share of the run after which bad habits are included")
    parser.add_argument("--proposer", choices=list(PROPOSERS), default="short", help="lengths and habits of proposals (default: %(default)s)")
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    train(arguments)


if __name__ == "__main__":
    main()
