"""The page world: 240 pages about invented towns, each with six figures in small print below their labels. Standard library only.

No model can know the figures, and no page shows them: they are legible only on a part that is cut out around them. The default seeds give the committed
packages/vf-search-models/datasets/page-world, byte for byte:

    python3 -m recipes.pages.pages --out /tmp/page-world
    python3 -m recipes.pages.pages --out /tmp/another --seed 7          # other pages of the same towns

Writes pages.jsonl (the words of every page with their boxes), train.jsonl (every figure of 180 towns) and test.jsonl (four figures of each of the other 60).
"""

import json
import pathlib
import random
from collections import namedtuple

from ..trunk.commands import command_parser
from ..trunk.names import TOWNS

EVALUATION_SEED = 20261126
SPLIT_SEED = 5
HELD_OUT_SHARE = 0.25
FIGURES = 6
HELD_OUT_FIGURES = 4

LABELS = (
    "bridges schools farms mills ships inns wells towers gates barns shops ponds parks halls forts docks mines kilns ovens carts sheep goats horses boats "
    "looms forges stables streets squares gardens orchards vineyards markets bells lamps chapels fountains quarries lighthouses theatres"
).split()

# The environment shows a page of this size at exactly a quarter, 700 x 560, so that boxes on the shown page are whole numbers.
SCALE = 4
WIDTH, HEIGHT = 700, 560
# In pixels of the shown page. Every left and right is a multiple of the grid, every top is 5 more than one, and a bottom is neither.
GRID, TOP = 10, 5
COLUMNS = 2
COLUMN_WIDTH, ROW_HEIGHT = 340, 160
# Titles and labels are above the environment's 9 legible pixels, figures far below.
TITLE_HEIGHT, LABEL_HEIGHT, VALUE_HEIGHT = 24, 14, 3

# Boxes in pixels of the shown page: left, top, right, bottom.
Figure = namedtuple("Figure", "label value label_box value_box")
Page = namedtuple("Page", "town title_box figures")


def draw_page(rng, town, labels=None):
    """A page of the town with six figures in random places of a loose grid, in reading order. No two lines share a left, a top or a right."""
    title = draw_line(rng, (20, TOP), (20, 3), GRID * len(town), TITLE_HEIGHT)
    figures, used = [], marks(title)
    for at, label in enumerate(labels or rng.sample(LABELS, FIGURES)):
        corner = (20 + at % COLUMNS * COLUMN_WIDTH, 60 + TOP + at // COLUMNS * ROW_HEIGHT)
        while True:
            label_box = draw_line(rng, corner, (15, 8), GRID * len(label), LABEL_HEIGHT)
            value_box = draw_line(rng, (label_box[0] + GRID, label_box[1] + 30), (10, 5), GRID, VALUE_HEIGHT)
            own = marks(label_box) | marks(value_box)
            if len(own) == 6 and not own & used:
                break
        used |= own
        figures.append(Figure(label, str(rng.randrange(100, 1000)), label_box, value_box))
    return Page(town, title, figures)


def draw_line(rng, corner, room, width, height):
    """A box of that size somewhere to the right of the corner and below it; `room` in steps of the grid."""
    left, top = (side + GRID * rng.randrange(steps) for side, steps in zip(corner, room, strict=True))
    return left, top, left + width, top + height


def marks(box):
    """Its left, its top and its right, which it shares with no other line of its page."""
    return {("left", box[0]), ("top", box[1]), ("right", box[2])}


def page_lines(page):
    """[(text, box, true if legible on the whole page)]"""
    lines = [(page.town, page.title_box, True)]
    for figure in page.figures:
        lines += [(figure.label, figure.label_box, True), (figure.value, figure.value_box, False)]
    return lines


def page_id(town):
    return f"{town}_1"


def question(label, town):
    return f"How many {label} has {town}?"


def sidecar(page):
    words = [[text, *(SCALE * side for side in box), line] for line, (text, box, _) in enumerate(page_lines(page))]
    return {"id": page_id(page.town), "width": SCALE * WIDTH, "height": SCALE * HEIGHT, "words": words}


def row(page, figure):
    return {
        "id": f"pw_{TOWNS.index(page.town):03d}_{figure.label}",
        "extra_info": {"file_name": page.town, "reference_page": [1], "question": question(figure.label, page.town)},
        "reward_model": {"ground_truth": figure.value},
    }


def draw_world(seed):
    rng = random.Random(seed)
    return {town: draw_page(rng, town) for town in TOWNS}


def split_towns(seed=SPLIT_SEED, share=HELD_OUT_SHARE):
    """(training towns, held-out towns)"""
    towns = list(TOWNS)
    random.Random(seed).shuffle(towns)
    held_out = round(len(towns) * share)
    return towns[: len(towns) - held_out], towns[len(towns) - held_out :]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in rows), encoding="utf-8")


def write_world(directory, world):
    directory.mkdir(parents=True, exist_ok=True)
    train, held_out = split_towns()
    write_jsonl(directory / "pages.jsonl", [sidecar(page) for page in world.values()])
    write_jsonl(directory / "train.jsonl", [row(world[town], figure) for town in train for figure in world[town].figures])
    # The four places of the page change from town to town.
    chosen = [(world[town], world[town].figures[(i + j) % FIGURES]) for i, town in enumerate(held_out) for j in range(HELD_OUT_FIGURES)]
    write_jsonl(directory / "test.jsonl", [row(page, figure) for page, figure in chosen])


def main():
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory for the three files; created if missing")
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="seed of the pages (default: %(default)s, the committed world)")
    arguments = parser.parse_args()
    write_world(arguments.out, draw_world(arguments.seed))


if __name__ == "__main__":
    main()
