"""Tests whether the model learns to look by GSPO, in plain torch without a server. It serves to choose between bases and is not the trainer.

    python -m recipes.vlm.learnability DIR [--seeds 0 1 2] [--control negated]

12 questions x 8 rollouts a step, LoRA on the decoder, advantages divided by the group's deviation, ratios of sequences, no KL, temperature 1. Prints one JSON
object per seed: the reward on 192 held-out questions by step, and at the end on white pictures.
"""

import json
import random
import time

import numpy as np
import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import model_parser
from ..trunk.model import init_lora, merge_lora
from .dataset import SEED, make_world
from .encoder import Encoder
from .player import Player
from .vlm import make_batch, vlm_forward
from .vlm_files import load_vlm

GROUP_SIZE = 8
ALPHA_PER_RANK = 2
GRADIENT_NORM = 1.0


def finder(pages):
    """A search that ranks pages by the words that title and query share. For words of titles the environment's BM25 finds the same first page."""

    def search(query):
        words = set(query.split())
        ranked = sorted(pages, key=lambda page: -len(words & set(page.title.split())))
        return [page for page in ranked if words & set(page.title.split())][:10]

    return search


def white(picture):
    return np.full_like(picture, 250)


def tasks_of(pages, rows):
    """(page, colour) of every row."""
    return [(pages[row["extra_info"]["reference_page"][0] - 1], row["id"].split("-")[1]) for row in rows]


def held_out_tasks(world):
    pages, _, held_out = world
    return tasks_of(pages, held_out)


class Run:
    def __init__(self, directory, arguments, seed):
        self.config, self.tower, self.base = load_vlm(directory)
        self.encoder, self.arguments = Encoder(load_tokenizer(directory)), arguments
        pages, train, held_out = make_world(SEED)
        self.search = finder(pages)
        self.train, self.held_out = tasks_of(pages, train), tasks_of(pages, held_out)
        self.lora = {name: tensor.requires_grad_() for name, tensor in init_lora(self.config, arguments.rank, seed).items()}
        self.optimizer = torch.optim.Adam(self.lora.values(), lr=arguments.lr, betas=(0.9, 0.99))
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)

    def player(self, **options):
        with torch.no_grad():
            return Player(self.config, self.tower, merge_lora(self.base, self.lora, ALPHA_PER_RANK), self.encoder, self.search, **options)

    def evaluate(self, **options):
        played = self.player(**options).play(self.held_out, torch.Generator().manual_seed(12345))
        return round(sum(one.reward for one in played) / len(played), 3)

    def step(self):
        """Trains on one batch; returns its mean reward."""
        tasks = self.random.sample(self.train, self.arguments.groups)
        player = self.player()
        played = player.play([task for task in tasks for _ in range(GROUP_SIZE)], self.generator)
        rewards = torch.tensor([one.reward for one in played]).view(-1, GROUP_SIZE)
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)).flatten()
        if self.arguments.control == "negated":
            advantages = -advantages
        kept = [(one, advantage) for one, advantage in zip(played, advantages.tolist(), strict=True) if advantage != 0]
        if kept:
            self.update(*zip(*kept, strict=True), player.prefix)
        return round(rewards.mean().item(), 3)

    def update(self, played, advantages, prefix):
        batch = make_batch([(one.ids, one.pictures) for one in played], self.encoder.image, self.encoder.pad, [len(prefix)] * len(played))
        sampled, old = (torch.zeros(batch.ids.shape) for _ in range(2))
        for i, one in enumerate(played):
            sampled[i, : len(one.ids)], old[i, : len(one.ids)] = torch.tensor(one.sampled).float(), torch.tensor(one.log_probs)
        logits = vlm_forward(self.config, self.tower, merge_lora(self.base, self.lora, ALPHA_PER_RANK), batch, prefix)[:, :-1]
        log_probs = logits.log_softmax(-1).gather(-1, batch.ids[:, 1:, None])[..., 0]
        counted = sampled[:, 1:]
        ratio = (((log_probs - old[:, 1:]) * counted).sum(1) / counted.sum(1)).exp()
        self.optimizer.zero_grad()
        (-(ratio * torch.tensor(advantages)).mean()).backward()
        torch.nn.utils.clip_grad_norm_(self.lora.values(), GRADIENT_NORM)
        self.optimizer.step()


def learn(directory, arguments, seed):
    run = Run(directory, arguments, seed)
    started = time.process_time()
    held_out, batches = {0: run.evaluate()}, []
    for step in range(1, arguments.steps + 1):
        batches.append(run.step())
        if step % arguments.evaluate_every == 0 or step == arguments.steps:
            held_out[step] = run.evaluate()
    blank = run.evaluate(look=white)
    return {"seed": seed, "held_out": held_out, "blank": blank, "batches": batches, "cpu_seconds": round(time.process_time() - started)}


def main():
    parser = model_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--groups", type=int, default=12)
    parser.add_argument("--evaluate-every", type=int, default=5)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--control", choices=["none", "negated"], default="none")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for seed in arguments.seeds:
        print(json.dumps(learn(arguments.model, arguments, seed)), flush=True)


if __name__ == "__main__":
    main()
