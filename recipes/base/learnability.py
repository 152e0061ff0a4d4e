"""Tests whether a base learns to search in 30 GRPO steps, in plain torch without a server. It serves to choose between bases and is not the trainer.

    python -m recipes.base.learnability models/nano-base [--protocol search-o1] [--seeds 0 1 2] [--world 7] [--control negated]

Uses the package's recipe: 8 questions x 8 rollouts, LoRA rank 8 on every linear layer, advantages divided by the group's deviation, clip
0.2, mean over the step's sampled tokens, no KL, temperature 1, Adam (0.9, 0.99). Rows with zero advantage have no gradient and are skipped.
Prints one JSON object per seed: the sampled reward on the 240 held-out questions (two draws each) by step.
"""

import json
import random
import time

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import model_parser
from ..trunk.model import forward, init_lora, load_model, merge_lora
from ..trunk.training import pad
from .protocols import PROTOCOLS, add_protocol_option
from .retriever import Retriever
from .rollout import Player, summarize
from .world import EVALUATION_SEED, World, held_out_questions, split_towns, train_questions

GROUPS, GROUP_SIZE = 8, 8
ALPHA_PER_RANK = 2
CLIP = 0.2
GRADIENT_NORM = 1.0


class Run:
    def __init__(self, model, arguments, seed):
        self.config, self.base, self.tokenizer, self.protocol = model
        self.arguments = arguments
        world = World(arguments.world)
        train_towns, held_out_towns = split_towns()
        self.train_questions = train_questions(world, train_towns)
        self.held_out = held_out_questions(world, held_out_towns)
        retriever = Retriever(world.documents)
        self.search = lambda query, topk, _: retriever.search(query, topk)
        self.lora = {name: tensor.requires_grad_() for name, tensor in init_lora(self.config, arguments.rank, seed).items()}
        self.optimizer = torch.optim.Adam(self.lora.values(), lr=arguments.lr, betas=(0.9, 0.99))
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def merged(self):
        return merge_lora(self.base, self.lora, ALPHA_PER_RANK)

    def player(self):
        with torch.no_grad():
            return Player(self.config, self.merged(), self.tokenizer, self.protocol, self.search)

    def evaluate(self):
        generator = torch.Generator().manual_seed(12345)
        return summarize(self.player().play(self.held_out * 2, generator=generator))

    def step(self):
        """Trains on one batch; returns its mean reward."""
        questions = self.random.sample(self.train_questions, GROUPS)
        player = self.player()
        rollouts = player.play([q for q in questions for _ in range(GROUP_SIZE)], generator=self.generator)
        rewards = torch.tensor([rollout.reward for rollout in rollouts]).view(GROUPS, GROUP_SIZE)
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)).flatten()
        if self.arguments.control == "negated":
            advantages = -advantages
        elif self.arguments.control == "shuffled":
            advantages = advantages[torch.randperm(len(advantages), generator=self.generator)]
        tokens = sum(sum(rollout.sampled) for rollout in rollouts)
        kept = [(rollout, advantage) for rollout, advantage in zip(rollouts, advantages.tolist(), strict=True) if advantage != 0]
        if kept:
            self.update(*zip(*kept, strict=True), tokens, player.prefix)
        return rewards.mean().item()

    def update(self, rollouts, advantages, tokens, prefix):
        ids = pad([rollout.ids for rollout in rollouts])
        sampled = pad([rollout.sampled for rollout in rollouts])[:, 1:].float()
        old = pad([rollout.log_probs for rollout in rollouts])[:, 1:]
        logits = forward(self.config, self.merged(), ids[:, :-1], prefix)
        log_probs = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        ratio = (log_probs - old).exp()
        advantage = torch.tensor(advantages)[:, None]
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        self.optimizer.zero_grad()
        (-(gain * sampled).sum() / tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.lora.values(), GRADIENT_NORM)
        self.optimizer.step()


def learn(model, arguments, seed):
    run = Run(model, arguments, seed)
    started = time.process_time()
    last = run.evaluate()
    held_out = {0: last["reward"]}
    batches = []
    for step in range(1, arguments.steps + 1):
        batches.append(round(run.step(), 3))
        if step % arguments.evaluate_every == 0 or step == arguments.steps:
            last = run.evaluate()
            held_out[step] = last["reward"]
    return {"seed": seed, "held_out": held_out, "last": last, "batches": batches, "cpu_seconds": round(time.process_time() - started)}


def main():
    parser = model_parser(__doc__)
    add_protocol_option(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--evaluate-every", type=int, default=5)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--world", type=int, default=EVALUATION_SEED, help="seed of the world's facts (default: %(default)s, the committed one)")
    parser.add_argument("--control", choices=["none", "negated", "shuffled"], default="none")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config, weights = load_model(arguments.model)
    model = (config, weights, load_tokenizer(arguments.model), PROTOCOLS[arguments.protocol])
    for seed in arguments.seeds:
        print(json.dumps(learn(model, arguments, seed)), flush=True)


if __name__ == "__main__":
    main()
