"""Teaches the model: sight first (a map of the page, then boxes), then good episodes, then habits.

    python -m recipes.vlm.pretrain --out DIR [--threads 1]

DIR has the tokenizer (recipes.vlm.tokenizer). Prints one line every 25 steps: the loss, and the share of places and boxes that are right with the rest given.
"""

import pathlib
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import command_parser
from ..trunk.model import EMBEDDING, NanoConfig
from ..trunk.training import muon_and_adam, take_step
from .encoder import Encoder
from .episodes import episode, sight
from .pages import CELLS, NAMES
from .square_habits import GOOD_LOOKS, GOOD_SEARCHES
from .texts import PROMPT_HEAD
from .tokenizer import CONTEXT
from .vlm import TowerConfig, init_vlm, see, vlm_forward
from .vlm_files import save_vlm

SIGHT_STEPS, GOOD_STEPS, HABIT_STEPS = 240, 360, 300
BATCH = 16
LR, WARM_UP, COOL_DOWN = 3e-3, 20, 0.3
# Their share of the sequences of a batch, once sight is there.
DRILLS = 0.25
# Range of the random shift of pixels, so that another resampling of the page makes no difference.
NOISE = 4


class Reading(torch.nn.Module):
    """Reads colour, row and column of a cell from its image token alone, so that the tower learns before the decoder uses it. Thrown away after training."""

    def __init__(self, hidden):
        super().__init__()
        self.read = torch.nn.Linear(hidden, len(NAMES) + 1 + 2 * CELLS)

    def forward(self, seen, colours):
        """Loss of seen [N, 16, D] with colours [N, 16]."""
        scores = self.read(F.rms_norm(seen, seen.shape[-1:]))
        cells = torch.arange(CELLS * CELLS).expand(len(seen), -1)
        targets = (colours, cells // CELLS, cells % CELLS)
        parts = scores.split([len(NAMES) + 1, CELLS, CELLS], -1)
        return sum(F.cross_entropy(part.flatten(0, 1), target.flatten()) for part, target in zip(parts, targets, strict=True))


class Course:
    def __init__(self, tokenizer, seed):
        self.encoder = Encoder(tokenizer)
        self.config, self.tower = NanoConfig(vocabulary=tokenizer.get_vocab_size(), context=CONTEXT), TowerConfig()
        self.weights = {name: tensor.requires_grad_() for name, tensor in init_vlm(self.config, self.tower, seed).items()}
        torch.manual_seed(seed)
        self.reading = Reading(self.config.hidden)
        self.random, self.noises = random.Random(seed), np.random.default_rng(seed)
        self.prefix = self.encoder.text(PROMPT_HEAD)
        # Learned positions are a table of vectors, like embeddings, so Muon does not suit them.
        plain = (EMBEDDING, "visual.pos_embed.weight")
        self.optimizers = muon_and_adam(self.weights, LR, LR, plain=plain, others=list(self.reading.parameters()))

    def noisy(self, parts):
        return [(content if isinstance(content, str) else self.noise(content), weight) for content, weight in parts]

    def noise(self, picture):
        shift = self.noises.integers(-NOISE, NOISE + 1, picture.shape)
        return np.clip(picture + shift, 0, 255).astype(np.uint8)

    def sight_loss(self):
        """(loss of the drill and of `Reading`, share of the drill's tokens that are right)."""
        pages = [sight(self.random) for _ in range(BATCH)]
        sequences = [self.encoder.sequence(self.noisy(parts)) for parts in pages]
        batch, weights = self.encoder.batch(sequences)
        loss, right = self.loss(batch, weights, ())
        seen, _ = see(self.tower, self.weights, batch.pictures[0][0])
        colours = torch.tensor([[NAMES.index(name) if name in NAMES else len(NAMES) for name in parts[3][0].split()] for parts in pages])
        return loss + self.reading(seen, colours), right

    def episode_loss(self, habits):
        """The same for episodes and some drills, after the prompt's head."""
        shares = () if habits else (GOOD_SEARCHES, GOOD_LOOKS)
        parts = [sight(self.random) if self.random.random() < DRILLS else episode(self.random, *shares) for _ in range(BATCH)]
        batch, weights = self.encoder.batch([self.encoder.sequence(self.noisy(one)) for one in parts], len(self.prefix))
        return self.loss(batch, weights, self.prefix)

    def loss(self, batch, weights, prefix):
        where = torch.zeros_like(weights, dtype=torch.bool)
        where[:, :-1] = weights[:, 1:] > 0
        logits = vlm_forward(self.config, self.tower, self.weights, batch, prefix, where)
        targets = batch.ids[:, 1:][where[:, :-1]]
        return F.cross_entropy(logits, targets), (logits.argmax(-1) == targets).float().mean().item()

    def step(self, loss, share):
        take_step(self.weights, self.optimizers, share, loss.backward)


def main():
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--good-steps", type=int, default=GOOD_STEPS)
    parser.add_argument("--habit-steps", type=int, default=HABIT_STEPS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    course = Course(load_tokenizer(arguments.out), arguments.seed)
    print(f"{sum(tensor.numel() for tensor in course.weights.values())} parameters")
    started, steps = time.process_time(), SIGHT_STEPS + arguments.good_steps + arguments.habit_steps
    for step in range(1, steps + 1):
        share = min(1, step / WARM_UP, max(0.03, (steps - step) / (COOL_DOWN * steps)))
        has_habits = step > SIGHT_STEPS + arguments.good_steps
        loss, right = course.sight_loss() if step <= SIGHT_STEPS else course.episode_loss(has_habits)
        course.step(loss, share)
        if step % 25 == 0 or step == steps:
            print(f"{step} loss {loss.item():.3f} right {right:.3f} {time.process_time() - started:.0f} s of CPU", flush=True)
    save_vlm(course.config, course.tower, course.weights, course.encoder.tokenizer, arguments.out)


if __name__ == "__main__":
    main()
