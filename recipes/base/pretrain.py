"""Pre-trains a base: drills of single skills, then good episodes, then episodes with good and bad habits.

    python -m recipes.base.tokenizer --out DIR && python -m recipes.base.pretrain --out DIR [--protocol search-o1] [--steps 1700] [--threads 2]

Deterministic for a seed and a number of threads. Uses a new random world every 50 steps, without the facts of the committed world.
"""

import random

import torch
import torch.nn.functional as F

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.model import NanoConfig, forward, init_weights, save_model
from ..trunk.training import BETAS, first_weights, pad, parse_training, run_steps, training_parser
from .habits import CONTEXT, ENVIRONMENT, GOOD_ONLY, MODEL, Teacher
from .probe import Probe
from .protocol import END_OF_TURN
from .protocols import PROTOCOLS, add_protocol_option
from .retriever import Retriever
from .world import EVALUATION_SEED, World

WORLD_STEPS = 50
FINAL_LR_SHARE = 0.05
SHORT_PROMPT_SHARE = 0.15
MICRO_BATCH = 16
WEIGHTS = {CONTEXT: 0.0, ENVIRONMENT: 0.2, MODEL: 1.0}


class Batches:
    """Draws micro-batches of episodes of similar length."""

    def __init__(self, tokenizer, protocol, arguments):
        self.tokenizer = tokenizer
        self.protocol = protocol
        self.end_of_turn = tokenizer.token_to_id(END_OF_TURN)
        self.random = random.Random(arguments.seed)
        self.teacher = Teacher(self.random, protocol, fresh=arguments.fresh)
        self.evaluation = World(EVALUATION_SEED)
        self.arguments = arguments
        self.cache = {}

    def encode(self, text):
        if text not in self.cache:
            if len(self.cache) > 200_000:
                self.cache.clear()
            self.cache[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.cache[text]

    def example(self, progress):
        """([(text, author)], whether it follows a prompt); `progress` is the share of the run, 0 to 1."""
        a = self.arguments
        drilling = progress < a.drill_until
        if self.random.random() < (a.drills if drilling else a.later_drills):
            return (self.teacher.reading_drill() if self.random.random() < 0.7 else self.teacher.asking_drill()), False
        return self.teacher.episode(GOOD_ONLY if progress < a.habits_from else self.protocol.habits), not drilling

    def row(self, pieces):
        """(ids, labels, weights), [T] each; label t is the token after token t."""
        ids, labels, weights = [], [], []
        for text, author in pieces:
            piece = self.encode(text)
            if ids and labels[-1] is None:
                labels[-1], weights[-1] = piece[0], WEIGHTS[author]
            ids += piece
            labels += [*piece[1:], self.end_of_turn if author == MODEL else None]
            weights += [WEIGHTS[author]] * len(piece)
        if labels[-1] is None:
            labels[-1], weights[-1] = self.end_of_turn, 0.0
        return ids, labels, weights

    def draw(self, step):
        """[(prefix, ids [B, T], labels [B, T], weights [B, T])]"""
        if step % WORLD_STEPS == 0:
            world = World(1000 + step, avoid=self.evaluation)
            self.teacher.enter(world, Retriever(world.documents))
        a = self.arguments
        groups = {True: [], False: []}
        progress = step / a.steps
        for _ in range(a.drill_batch if progress < a.drill_until else a.batch):
            pieces, follows_prompt = self.example(progress)
            groups[follows_prompt].append(self.row(pieces))
        batches = []
        for follows_prompt, rows in groups.items():
            rows.sort(key=lambda row: len(row[0]))
            # Drills have no long prompt to share, so smaller batches waste less padding.
            size = MICRO_BATCH if follows_prompt else MICRO_BATCH // 2
            for start in range(0, len(rows), size):
                short = not follows_prompt or self.random.random() < SHORT_PROMPT_SHARE
                prefix = self.encode(self.protocol.short_head if short else self.protocol.prompt_head)
                batches.append((prefix, *(pad(column) for column in zip(*rows[start : start + size], strict=True))))
        return batches


def train_step(config, weights, batches):
    """Accumulates the gradient of one step; returns the mean loss over the model's own tokens."""
    total = sum(float(w.sum()) for *_, w in batches)
    loss_sum = count = 0.0
    for prefix, ids, labels, w in batches:
        where = w > 0
        w = w[where]
        losses = F.cross_entropy(forward(config, weights, ids, prefix, where), labels[where], reduction="none")
        ((losses * w).sum() / total).backward()
        own = w == 1
        loss_sum += losses.detach()[own].sum().item()
        count += own.sum().item()
    return loss_sum / count


def train(arguments):
    tokenizer, protocol = load_tokenizer(arguments.out), PROTOCOLS[arguments.protocol]
    config, weights = first_weights(arguments, NanoConfig(vocabulary=tokenizer.get_vocab_size()), init_weights)
    matrices, vectors = ([t for t in weights.values() if (t.dim() == 2) == flat] for flat in (True, False))
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}], betas=BETAS)
    batches = Batches(tokenizer, protocol, arguments)

    def save(done):
        save_model(config, weights, tokenizer, arguments.out)
        report(config, weights, tokenizer, protocol, done)

    run_steps(
        arguments,
        weights,
        [(optimizer, arguments.lr)],
        lambda step: train_step(config, weights, batches.draw(step)),
        save,
        final_share=FINAL_LR_SHARE,
        log_every=50,
        smoothing=0.97,
    )


def report(config, weights, tokenizer, protocol, step):
    frozen = {name: tensor.detach() for name, tensor in weights.items()}
    probe = Probe(config, frozen, tokenizer, protocol, count=80)
    known, search_known = probe.unseen(objects=False, count=80)
    unseen, search_unseen = probe.unseen(objects=True, count=80)
    values = {
        "sampled": probe.reward(temperature=1.0, forced=False),
        "query": probe.query_is_exact(),
        "forced": probe.reward(),
        "top-k 5": probe.reward(topk=5),
        "same relation": probe.reward(probe.same_relation),
        "unseen towns": probe.reward(search_known, questions=known),
        "unseen both": probe.reward(search_unseen, questions=unseen),
    }
    print(f"probe {step} " + ", ".join(f"{name} {value}" for name, value in values.items()), flush=True)


def main():
    parser = training_parser(__doc__, steps=1700, batch=32, lr=2e-3, warmup=60, seed=11, save_every=250, threads=2)
    add_protocol_option(parser)
    parser.add_argument("--drill-batch", type=int, default=16, help="examples per step in the drill phase, which are longer (default: %(default)s)")
    parser.add_argument("--fresh", type=float, default=0.0, help="share of examples with newly invented names")
    parser.add_argument("--drills", type=float, default=0.0, help="share of drills in the drill phase")
    parser.add_argument("--drill-until", type=float, default=0.0, help="share of the run that is the drill phase, with short prompts")
    parser.add_argument("--later-drills", type=float, default=0.0, help="share of drills afterwards")
    parser.add_argument("--habits-from", type=float, default=0.7, help="share of the run after which bad habits are included")
    train(parse_training(parser))


if __name__ == "__main__":
    main()
