"""Pre-trains the nano model that copies: drills of copying and looking up, then good episodes, then episodes with bad habits.

    python -m recipes.copy.tokenizer --out DIR && python -m recipes.copy.pretrain --out DIR [--steps N] [--threads 1]

Deterministic for a seed and a number of threads. Every word is drawn at random, and none is a word of an evaluation (words.py). With --start it goes on from
other weights, with --from-share at a later part of the phases. With several workers (python -m torch.distributed.run --nproc-per-node 2 -m recipes.copy.pretrain ...)
each draws its own rows, `--batch` of them, and all take the same steps.
"""

import os
import sys

import torch
import torch.distributed as workers
import torch.nn.functional as F

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.model import NanoConfig, forward, init_weights, save_model
from ..trunk.rounded import rounded
from ..trunk.training import add_from_share, add_other_lr, first_weights, muon_and_adam, pad, parse_training, phase_shares, run_steps, training_parser
from .episodes import CONTEXT, ENVIRONMENT, MODEL, TURN, ask, draw_episode, look_up, read, repetition, reply
from .laid_context import lay_context
from .tokenizer import CONTEXT as CONTEXT_TOKENS
from .tokenizer import END
from .words import WordRandom

FINAL_LR_SHARE = 0.03
TOKENS_AT_ONCE = 4096
# The model must find the first token of a word; the others follow from it. The first weighs as much as this many others.
FIRST_WEIGHT = 3.0
WEIGHTS = {CONTEXT: 0.0, ENVIRONMENT: 0.03, MODEL: 1.0, TURN: 1.0}
# The shares of drills and episodes until this share of the run.
PHASES = [
    (0.06, {"repetition": 0.4, "look_up": 0.6}),
    (0.40, {"repetition": 0.04, "look_up": 0.25, "ask": 0.11, "reply": 0.35, "good": 0.25}),
    (0.75, {"look_up": 0.15, "ask": 0.05, "reply": 0.15, "good": 0.65}),
    (1.00, {"read": 0.4, "habits": 0.4, "look_up": 0.12, "reply": 0.08}),
]

DRILLS = {"repetition": repetition, "look_up": look_up, "ask": ask, "reply": reply, "read": read}


class Rows:
    """Rows of (ids, labels, weights, the stretch of learned tokens that each belongs to): label t follows token t."""

    def __init__(self, tokenizer, seed, shared=0.0):
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id(END)
        pieces = [tokenizer.decode([token], skip_special_tokens=False) for token in range(tokenizer.get_vocab_size())]
        self.letters = [piece[-1:].isalnum() for piece in pieces]
        self.spaced = [piece.startswith(" ") for piece in pieces]
        self.rng = WordRandom(seed)
        self.shared = shared

    def draw(self, phase):
        self.rng.choose_syllables(self.shared)
        kind = self.rng.choices(list(phase), list(phase.values()))[0]
        if kind in DRILLS:
            return self.row(DRILLS[kind](self.rng))
        return self.row(draw_episode(self.rng, only_good=kind == "good"))

    def row(self, pieces):
        ids, labels, weights = [], [], []
        for text, author in pieces:
            piece = self.tokenizer.encode(text, add_special_tokens=False).ids
            # The label before the piece is the piece's first token, unless a turn has ended there.
            if ids and labels[-1] is None:
                labels[-1], weights[-1] = piece[0], WEIGHTS[author]
            ids += piece
            labels += [*piece[1:], None]
            weights += [WEIGHTS[author]] * (len(piece) - 1) + [0.0]
            if author == TURN and piece[-1] != self.end:
                labels[-1], weights[-1] = self.end, 1.0
        labels[-1] = self.end if labels[-1] is None else labels[-1]
        return ids, labels, [weight * FIRST_WEIGHT if weight == 1 and self.is_first(*pair) else weight for weight, *pair in zip(weights, ids, labels, strict=True)]

    def is_first(self, before, token):
        """True if a word begins with this token."""
        return self.letters[token] and (self.spaced[token] or not self.letters[before])


def losses_of(config, weights, part):
    """(loss, weight, true if it is the likeliest) of every token that counts, row by row, and the mask [B, T]."""
    ids, labels = pad([row[0] for row in part]), pad([row[1] for row in part])
    counts = pad([row[2] for row in part], torch.float32)
    where = counts > 0
    logits = forward(config, weights, ids, (), where)
    targets = labels[where]
    return F.cross_entropy(logits, targets, reduction="none"), counts[where], logits.argmax(-1) == targets, where


def parts_of(rows):
    """Rows of similar length together, at most TOKENS_AT_ONCE."""
    part = []
    for row in sorted(rows, key=lambda row: len(row[0])):
        if part and len(row[0]) * (len(part) + 1) > TOKENS_AT_ONCE:
            yield part
            part = []
        part.append(row)
    yield part


def train_step(config, weights, rows):
    """Accumulates the gradient of one step; returns the mean loss over the model's own tokens."""
    total = sum(sum(row[2]) for row in rows)
    loss_sum = count = 0.0
    for part in parts_of(rows):
        losses, counts, _, _ = losses_of(config, weights, part)
        ((losses * counts).sum() / total).backward()
        own = counts >= 1
        loss_sum += losses.detach()[own].sum().item()
        count += own.sum().item()
    return loss_sum / count


@torch.no_grad()
def whole_share(config, weights, rows):
    """Share of rows whose own tokens are all the likeliest."""
    right = 0
    for part in parts_of(rows):
        _, counts, hits, where = losses_of(config, weights, part)
        wrong = torch.zeros(where.shape, dtype=torch.bool)
        wrong[where] = ~hits & (counts >= 1)
        right += (~wrong.any(1)).sum().item()
    return right / len(rows)


def average_gradients(weights):
    """The sum of all workers."""
    if workers.is_initialized():
        flat = torch.cat([tensor.grad.flatten() for tensor in weights.values()])
        workers.all_reduce(flat)
        for tensor, part in zip(weights.values(), flat.split([tensor.numel() for tensor in weights.values()]), strict=True):
            tensor.grad.copy_(part.view_as(tensor) / workers.get_world_size())


def join_workers():
    """The number of this worker; only the first one writes. 0 if there is only one."""
    if "WORLD_SIZE" not in os.environ:
        return 0
    workers.init_process_group("gloo")
    if workers.get_rank() > 0:
        sys.stdout = open(os.devnull, "w")
    return workers.get_rank()


def train(arguments):
    rank = join_workers()
    tokenizer = load_tokenizer(arguments.out)
    shape = {"hidden": arguments.hidden, "feed_forward": arguments.feed_forward, "layers": arguments.layers}
    start = NanoConfig(vocabulary=tokenizer.get_vocab_size(), **shape, context=CONTEXT_TOKENS, rope_theta=1e6)
    config, weights = first_weights(arguments, start, lambda config, seed: lay_context(config, init_weights(config, seed), seed))
    rows, probe = Rows(tokenizer, arguments.seed + 1000 * rank, arguments.shared), Rows(tokenizer, 99)
    drills = {kind: [probe.draw({kind: 1.0}) for _ in range(16)] for kind in (*DRILLS, "good")}

    def backward(step):
        phase = phase_shares(PHASES, step, arguments)
        loss = train_step(config, weights, [rows.draw(phase) for _ in range(arguments.batch)])
        average_gradients(weights)
        return loss

    def save(_):
        if rank == 0:
            # Values of bfloat16, stored as float32, take half the space in a package.
            save_model(config, rounded(weights), tokenizer, arguments.out)

    def note():
        return "".join(f" {kind} {whole_share(config, weights, drill):.3f}" for kind, drill in drills.items()) if rank == 0 else ""

    run_steps(
        arguments,
        weights,
        muon_and_adam(weights, arguments.lr, arguments.other_lr),
        backward,
        save,
        final_share=FINAL_LR_SHARE,
        log_every=25,
        smoothing=0.95,
        note=note,
    )


def main():
    parser = training_parser(__doc__, steps=3200, batch=12, lr=4e-3, warmup=50, seed=5, save_every=100, threads=1)
    parser.add_argument("--hidden", type=int, default=160, help="(default: %(default)s)")
    parser.add_argument("--feed-forward", type=int, default=320, help="(default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="(default: %(default)s)")
    add_from_share(parser)
    parser.add_argument("--shared", type=float, default=0.4, help="share of rows whose words share syllables (default: %(default)s)")
    add_other_lr(parser, 3e-3)
    train(parse_training(parser))


if __name__ == "__main__":
    main()
