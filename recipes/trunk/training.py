"""Shared parts of the pre-trainings of all nano models: options, the first weights, optimizers, the rate, one
step, the loop with its log."""

import argparse
import math
import pathlib
import time

import torch

from .model import EMBEDDING, load_model
from .muon import Muon

GRADIENT_NORM = 1.0
BETAS = (0.9, 0.98)


def training_parser(doc, **defaults):
    """Options of a pre-training in `--steps` steps."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory that contains tokenizer.json")
    parser.add_argument("--start", help="model directory to start from (default: random weights)")
    parser.add_argument("--steps", type=int, help="(default: %(default)s)")
    parser.add_argument("--stop-at", type=int, help="stop after this step of the schedule, to continue with another mix")
    parser.add_argument("--batch", type=int, help="examples per step (default: %(default)s)")
    parser.add_argument("--lr", type=float, help="learning rate (default: %(default)s)")
    parser.add_argument("--warmup", type=int, help="steps until the learning rate is reached (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="(default: %(default)s)")
    parser.add_argument("--save-every", type=int, help="steps after which the weights are written (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="(default: %(default)s)")
    parser.set_defaults(**defaults)
    return parser


def add_other_lr(parser, default):
    parser.add_argument("--other-lr", type=float, default=default, help="learning rate of embeddings and norms (default: %(default)s)")


def add_from_share(parser):
    parser.add_argument("--from-share", type=float, default=0.0, help="share of the phases that went before (default: %(default)s)")


def parse_training(parser):
    """The options, with torch's threads and seed set to them."""
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    return arguments


def first_weights(arguments, config, draw):
    """(config, weights that are trained): those of `--start`, else the result of `draw` for the config and the seed."""
    config, weights = load_model(arguments.start) if arguments.start else (config, draw(config, arguments.seed))
    for tensor in weights.values():
        tensor.requires_grad_()
    print(f"{sum(t.numel() for t in weights.values())} parameters, {config.vocabulary} tokens", flush=True)
    return config, weights


def muon_and_adam(weights, lr, other_lr, *, plain=(EMBEDDING,), others=()):
    """[(optimizer, rate)]: Muon for matrices; AdamW for embeddings, norms, biases, matrices named in `plain`, and the tensors `others`."""
    matrices = [tensor for name, tensor in weights.items() if tensor.dim() == 2 and name not in plain]
    rest = [tensor for name, tensor in weights.items() if tensor.dim() != 2 or name in plain]
    return [(Muon(matrices, lr), lr), (torch.optim.AdamW([*rest, *others], betas=BETAS, weight_decay=0.0), other_lr)]


def pad(rows, dtype=None):
    """[B, T], zeros on the right."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)


def rate_share(step, steps, warmup, final):
    """The share of the whole rate in a step, counted from 0: a linear warm-up, then a cosine that ends at `final`."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1, (step + 1) / warmup) * (final + (1 - final) * cosine)


def phase_shares(phases, step, arguments):
    """The shares of a step, counted from 0: `phases` are pairs of the share of the run at which each ends and of its shares; a share `--from-share` of the run went before."""
    progress = arguments.from_share + (1 - arguments.from_share) * (step + 1) / arguments.steps
    return next(shares for end, shares in phases if progress <= end + 1e-9)


def take_step(weights, optimizers, share, backward):
    """Takes one step with this share of every rate; `backward()` accumulates the gradient, and its result is returned."""
    for optimizer, rate in optimizers:
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = rate * share
    loss = backward()
    torch.nn.utils.clip_grad_norm_(weights.values(), GRADIENT_NORM)
    for optimizer, _ in optimizers:
        optimizer.step()
    return loss


def run_steps(arguments, weights, optimizers, backward, save, *, final_share, log_every, smoothing, note=lambda: ""):
    """Takes the steps of the options. `backward(step)` accumulates a step's gradient and returns its loss, `save(done)` writes the weights."""
    started, cpu, smooth = time.monotonic(), time.process_time(), None
    last = arguments.stop_at or arguments.steps
    for step in range(last):
        share = rate_share(step, arguments.steps, arguments.warmup, final_share)
        loss = take_step(weights, optimizers, share, lambda step=step: backward(step))
        smooth = loss if smooth is None else smoothing * smooth + (1 - smoothing) * loss
        done = step + 1
        if done % log_every == 0:
            print(f"step {done} loss {smooth:.3f}{note()} wall {time.monotonic() - started:.0f} cpu {time.process_time() - cpu:.0f}", flush=True)
        if done % arguments.save_every == 0 or done == last:
            save(done)
