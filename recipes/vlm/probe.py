"""Measures the model on the 192 held-out questions, sampled at temperature 1 in plain torch.

    python -m recipes.vlm.probe DIR

`good`: its turns begin as the good habits do, so this measures its ability; `free`: all turns are its own; `blank`: the same two on white pages.
"""

import collections
import json
import re

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import command_parser
from .dataset import SEED, make_world
from .encoder import Encoder
from .learnability import finder, held_out_tasks, white
from .pages import NAMES
from .player import Player
from .vlm_files import load_vlm

GOOD = ("<think>I look", "<think>I see")


def thought(turn):
    """The page without its colours and numbers."""
    return re.sub("|".join([r"\d+", *NAMES]), "_", turn.split("</think>")[0].removeprefix("<think>"))


def main():
    parser = command_parser(__doc__)
    parser.add_argument("model", help="model directory")
    directory = parser.parse_args().model
    torch.set_num_threads(1)
    config, tower, weights = load_vlm(directory)
    world = make_world(SEED)
    tasks, encoder = held_out_tasks(world), Encoder(load_tokenizer(directory))
    for name, options in {"good": {"openings": GOOD}, "free": {}, "blank good": {"openings": GOOD, "look": white}, "blank free": {"look": white}}.items():
        played = Player(config, tower, weights, encoder, finder(world[0]), **options).play(tasks, torch.Generator().manual_seed(1))
        thoughts = collections.Counter(thought(turn) for one in played for turn in one.turns)
        reward = sum(one.reward for one in played) / len(played)
        print(json.dumps({"probe": name, "reward": round(reward, 3), "thoughts": thoughts.most_common(9)}))


if __name__ == "__main__":
    main()
