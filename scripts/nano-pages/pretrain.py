"""Pre-trains the nano model of pages: copying first, then looking up boxes on a page, then whole episodes, then episodes with bad habits.

    python scripts/nano-pages/page_tokenizer.py --out DIR && python scripts/nano-pages/pretrain.py --out DIR [--steps N] [--threads 1]

Deterministic for a seed and a number of threads. Every page is drawn at random. With --start it goes on from other weights,
with --from-share at a later part of the phases.
"""

import argparse
import math
import pathlib
import random
import time

import nano_scripts  # noqa: F401
import torch
import torch.nn.functional as F
from laid_induction import lay_induction
from model import EMBEDDING, NanoConfig, forward, init_weights, load_model, save_model
from muon import Muon
from names import TOWNS
from page_episodes import GOOD, HABITS, MODEL, episode, page_drill, question_drill, repetition
from page_texts import END
from page_tokenizer import CONTEXT, box_pieces, load_tokenizer
from pages import LABELS

FINAL_LR_SHARE = 0.03
MICRO_BATCH = 16
# What is drawn until this share of the run: shares of drills and episodes.
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


def losses_of(config, weights, part):
    """(loss of every learned token, whether it is the likeliest), row by row."""
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
    if arguments.start:
        config, weights = load_model(arguments.start)
    else:
        config = NanoConfig(vocabulary=tokenizer.get_vocab_size(), context=CONTEXT, rope_theta=1e6)
        weights = lay_induction(config, init_weights(config, arguments.seed), arguments.seed)
    for tensor in weights.values():
        tensor.requires_grad_()
    steppers = optimizers(weights, arguments)
    print(f"{sum(t.numel() for t in weights.values())} parameters, {config.vocabulary} tokens", flush=True)
    rows, probe = Rows(tokenizer, arguments.seed), Rows(tokenizer, 99)
    drills = {kind: [probe.draw({kind: 1.0}) for _ in range(16)] for kind in ("repetition", "page", "good")}
    started, cpu, smooth = time.monotonic(), time.process_time(), None
    last = arguments.stop_at or arguments.steps
    for step in range(last):
        progress = arguments.from_share + (1 - arguments.from_share) * (step + 1) / arguments.steps
        phase = next(shares for end, shares in PHASES if progress <= end + 1e-9)
        for optimizer, rate in steppers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = rate * learning_rate(step / arguments.steps, step, arguments)
        loss = train_step(config, weights, [rows.draw(phase) for _ in range(arguments.batch)])
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        for optimizer, _ in steppers:
            optimizer.step()
        smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
        if (step + 1) % 25 == 0:
            probed = " ".join(f"{kind} {accuracy(config, weights, drill):.3f}" for kind, drill in drills.items())
            print(f"step {step + 1} loss {smooth:.3f} {probed} wall {time.monotonic() - started:.0f} cpu {time.process_time() - cpu:.0f}", flush=True)
        if (step + 1) % arguments.save_every == 0 or step + 1 == last:
            # Rounded values halve the size of a compressed file; the format stays float32.
            rounded = {name: tensor.detach().bfloat16().float() for name, tensor in weights.items()}
            save_model(config, rounded if arguments.rounded else weights, tokenizer, arguments.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory that contains tokenizer.json")
    parser.add_argument("--start", help="model directory to start from (default: random weights)")
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--stop-at", type=int, help="stop after this step of the schedule, to go on with another mix")
    parser.add_argument("--from-share", type=float, default=0.0, help="share of the phases that went before (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="texts per step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=4e-3, help="of the matrices (default: %(default)s)")
    parser.add_argument("--other-lr", type=float, default=3e-3, help="of embeddings and norms (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--rounded", action="store_true", help="saves values of bfloat16, as float32")
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    train(arguments)


if __name__ == "__main__":
    main()
