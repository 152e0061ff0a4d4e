"""Pre-trains the nano model of pages: copying first, then looking up boxes on a page, then whole episodes, then episodes with bad habits.

    python -m recipes.pages.tokenizer --out DIR && python -m recipes.pages.pretrain --out DIR [--steps N] [--threads 1]

Deterministic for a seed and a number of threads. Every page is drawn at random. With --start it goes on from other weights,
with --from-share at a later part of the phases.
"""

import random

import torch
import torch.nn.functional as F

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.model import NanoConfig, forward, init_weights, save_model
from ..trunk.names import TOWNS
from ..trunk.rounded import rounded
from ..trunk.training import add_from_share, add_other_lr, first_weights, muon_and_adam, pad, parse_training, phase_shares, run_steps, training_parser
from .episodes import GOOD, HABITS, MODEL, episode, page_drill, question_drill, repetition
from .laid_induction import lay_induction
from .pages import LABELS
from .texts import END
from .tokenizer import CONTEXT, box_pieces

FINAL_LR_SHARE = 0.03
MICRO_BATCH = 16
# Shares of drills and episodes until this share of the run.
PHASES = [
    (0.08, {"repetition": 0.5, "page": 0.5}),
    (0.35, {"page": 0.6, "question": 0.1, "good": 0.3}),
    (0.60, {"good": 0.7, "page": 0.3}),
    (1.00, {"habits": 0.9, "page": 0.1}),
]


class Rows:
    """Token ids with the mask of those that the model learns to write."""

    def __init__(self, tokenizer, seed):
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id(END)
        self.rng = random.Random(seed)
        self.pieces = box_pieces() + [f" {name}" for name in LABELS * 3 + TOWNS]

    def draw(self, phase):
        rng = self.rng
        kind = rng.choices(list(phase), list(phase.values()))[0]
        if kind == "repetition":
            return self.row(repetition(rng, self.pieces))
        if kind == "page":
            return self.row(page_drill(rng))
        if kind == "question":
            return self.row(question_drill(rng))
        return self.row(episode(rng, GOOD if kind == "good" else HABITS))

    def row(self, pieces):
        ids, learned = [], []
        for text, author in pieces:
            piece = self.tokenizer.encode(text, add_special_tokens=False).ids
            if author == MODEL:
                piece = [*piece, self.end]
            ids += piece
            learned += [author == MODEL] * len(piece)
        return ids, learned


def losses_of(config, weights, part):
    """(loss of every learned token, true if it is the likeliest), row by row."""
    ids = pad([ids for ids, _ in part])
    where = pad([learned[1:] for _, learned in part])
    logits = forward(config, weights, ids[:, :-1], (), where)
    targets = ids[:, 1:][where]
    return F.cross_entropy(logits, targets, reduction="none"), logits.argmax(-1) == targets


def train_step(config, weights, rows):
    """Accumulates the gradient of one step; returns the mean loss over learned tokens."""
    rows = sorted(rows, key=lambda row: len(row[0]))
    total = sum(sum(learned) for _, learned in rows)
    loss_sum = 0.0
    for at in range(0, len(rows), MICRO_BATCH):
        losses, _ = losses_of(config, weights, rows[at : at + MICRO_BATCH])
        loss = losses.sum() / total
        loss.backward()
        loss_sum += loss.item()
    return loss_sum


@torch.no_grad()
def accuracy(config, weights, rows):
    """Share of learned tokens that are the likeliest."""
    return torch.cat([losses_of(config, weights, rows[at : at + MICRO_BATCH])[1] for at in range(0, len(rows), MICRO_BATCH)]).float().mean().item()


def train(arguments):
    tokenizer = load_tokenizer(arguments.out)
    start = NanoConfig(vocabulary=tokenizer.get_vocab_size(), context=CONTEXT, rope_theta=1e6)
    config, weights = first_weights(arguments, start, lambda config, seed: lay_induction(config, init_weights(config, seed), seed))
    rows, probe = Rows(tokenizer, arguments.seed), Rows(tokenizer, 99)
    drills = {kind: [probe.draw({kind: 1.0}) for _ in range(16)] for kind in ("repetition", "page", "good")}

    def backward(step):
        phase = phase_shares(PHASES, step, arguments)
        return train_step(config, weights, [rows.draw(phase) for _ in range(arguments.batch)])

    def save(_):
        # Rounded values halve the size of a compressed file; the format stays float32.
        save_model(config, rounded(weights) if arguments.rounded else weights, tokenizer, arguments.out)

    run_steps(
        arguments,
        weights,
        muon_and_adam(weights, arguments.lr, arguments.other_lr),
        backward,
        save,
        final_share=FINAL_LR_SHARE,
        log_every=25,
        smoothing=0.95,
        note=lambda: "".join(f" {kind} {accuracy(config, weights, drill):.3f}" for kind, drill in drills.items()),
    )


def main():
    parser = training_parser(__doc__, steps=700, batch=16, lr=4e-3, warmup=50, seed=5, save_every=100, threads=1)
    add_from_share(parser)
    add_other_lr(parser, 3e-3)
    parser.add_argument("--rounded", action="store_true", help="saves values of bfloat16, as float32")
    train(parse_training(parser))


if __name__ == "__main__":
    main()
