"""Probes of a nano coder: held-out accuracy, proposals, critiques.

    python -m recipes.coder.probe packages/vf-search-models/models/nano-coder [--draws 2] [--greedy]
"""

import json

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import model_parser
from ..trunk.model import load_model
from .player import Player
from .tasks import held_out_rows


def main():
    parser = model_parser(__doc__)
    parser.add_argument("--draws", type=int, default=2, help="replies to each held-out task (default: %(default)s)")
    parser.add_argument("--greedy", action="store_true", help="at temperature 0")
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
