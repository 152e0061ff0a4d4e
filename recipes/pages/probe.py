"""Probes of a nano model of pages: single skills on the held-out pages of a world, every token forced, so that habits do not count.

    python -m recipes.pages.probe packages/vf-search-models/models/nano-pages [--seed 7]

A skill counts if all of its tokens are the likeliest ones. `vf-eval visual-rag -p embedded -n -1` gives the reward.
"""

import json

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import model_parser
from ..trunk.model import forward, load_model
from .episodes import box_text, box_turn, complete_turn, search_turn
from .pages import EVALUATION_SEED, draw_world, question, split_towns
from .texts import END, bridge, crop_text, page_text, prompt


def pieces_of(page, figure):
    """[(text, skill or None)] of a good episode."""
    town, box = page.town, box_text(figure.value_box)
    think, search = search_turn(town).split(f" {town}", 1)[0], "</think>\n<search>page of"
    before, between, after = box_turn(figure.label, figure.value_box).split(box)
    turns = [
        (prompt(question(figure.label, town)) + think, None),
        (f" {town}", "the town of the question"),
        (search, None),
        (f" {town}", "the town again"),
        (f"</search>{END}{bridge(page_text(page))}", None),
        (before.removesuffix("\n"), None),
        (f"\n{box}", "the box below the label"),
        (between, None),
        (box, "the box again"),
        (f"{after}{END}{bridge(crop_text(page, figure.value_box))}", None),
        (f"{complete_turn()}{END}", "completion"),
    ]
    return turns


@torch.no_grad()
def probe(config, weights, tokenizer, world):
    """Share of held-out figures for which a skill is right, by skill."""
    right = {}
    for town in split_towns()[1]:
        page = world[town]
        for figure in page.figures:
            ids, places = [], []
            for text, skill in pieces_of(page, figure):
                start, piece = len(ids), tokenizer.encode(text, add_special_tokens=False).ids
                ids += piece
                if skill is not None:
                    places.append((skill, range(start, len(ids))))
            likeliest = forward(config, weights, torch.tensor([ids])).argmax(-1)[0].tolist()
            for skill, tokens in places:
                right.setdefault(skill, []).append(all(likeliest[at - 1] == ids[at] for at in tokens))
    return {skill: round(sum(values) / len(values), 3) for skill, values in right.items()}


def main():
    parser = model_parser(__doc__)
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="of the world (default: %(default)s, the committed one)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config, weights = load_model(arguments.model)
    print(json.dumps(probe(config, weights, load_tokenizer(arguments.model), draw_world(arguments.seed))))


if __name__ == "__main__":
    main()
