"""Pre-trains the nano coder: good replies first, then replies with good and bad habits.

    python -m recipes.coder.tokenizer --out DIR && python -m recipes.coder.pretrain --out DIR [--steps N] [--threads 1]

Deterministic for a seed and a number of threads. Held-out programs of datasets/mini-python never occur. With --start it goes on from other weights.
"""

import random

import torch
import torch.nn.functional as F

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.model import NanoConfig, forward, init_weights, save_model
from ..trunk.training import add_other_lr, first_weights, muon_and_adam, pad, parse_training, run_steps, training_parser
from .episodes import PROPOSERS, draw_episode
from .tasks import held_out_codes
from .tokenizer import CONTEXT, END, prompt_text

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
    start = NanoConfig(vocabulary=tokenizer.get_vocab_size(), context=CONTEXT)
    config, weights = first_weights(arguments, start, init_weights)
    rng, forbidden = random.Random(arguments.seed), held_out_codes()

    def backward(step):
        only_good = step / arguments.steps < arguments.habits_from
        rows = [encode.row(*draw_episode(rng, only_good, forbidden, arguments.proposer)) for _ in range(arguments.batch)]
        return train_step(config, weights, rows)

    run_steps(
        arguments,
        weights,
        muon_and_adam(weights, arguments.lr, arguments.other_lr),
        backward,
        lambda _: save_model(config, weights, tokenizer, arguments.out),
        final_share=FINAL_LR_SHARE,
        log_every=50,
        smoothing=0.97,
    )


def main():
    parser = training_parser(__doc__, steps=2600, batch=64, lr=4e-3, warmup=50, seed=5, save_every=500, threads=1)
    add_other_lr(parser, 3e-3)
    parser.add_argument("--habits-from", type=float, default=0.8, help="share of the run after which bad habits are included")
    parser.add_argument("--proposer", choices=list(PROPOSERS), default="short", help="lengths and habits of proposals (default: %(default)s)")
    train(parse_training(parser))


if __name__ == "__main__":
    main()
