"""Probes of a nano coder: held-out accuracy, proposals, critiques.

    python scripts/nano-coder/probe.py packages/vf-search-models/models/nano-coder [--draws 2] [--greedy]
"""

import argparse
import json
import pathlib

import nano_scripts  # noqa: F401
import torch
from byte_pairs import load_tokenizer
from model import load_model
from player import Player
from tasks import held_out_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--draws", type=int, default=2, help="replies to each held-out task (default: %(default)s)")
    parser.add_argument("--greedy", action="store_true", help="at temperature 0")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config, weights = load_model(arguments.model)
    player = Player(config, load_tokenizer(arguments.model))
    tasks = held_out_rows()
    solved = player.solve(weights, tasks * arguments.draws, temperature=0.0 if arguments.greedy else 1.0)
    codes = [task["code"] for task in tasks if task["kind"] == "code_o"]
    print(json.dumps({"solve": solved, "propose": player.propose(weights, codes), "critique": player.criticise(weights, tasks)}))


if __name__ == "__main__":
    main()
