"""Writes the data set of pages for the environment visual-rag, byte for byte: pictures, words, and rows in upstream's columns. Needs only python3.

    python3 -m recipes.vlm.dataset --out DIR [--seed 20260729] [--blank]

DIR gets images/NAME.png, pages.jsonl, train.jsonl and heldout.jsonl; no page is in both. With --blank the pictures are white, and all else is the same.
"""

import json
import pathlib
import random
import struct
import zlib

from ..trunk.commands import command_parser
from .pages import PAGE, PALETTE, TITLES, draw_page
from .texts import question

SEED = 20260729
FILE = "squares"
HELD_OUT_PAGES = 48
# Questions of a held-out page; a training page has one for every colour.
HELD_OUT_QUESTIONS = 4
PALETTE_BITS = 4


def png(pixels, palette):
    """An indexed picture of PAGE x PAGE pixels, four bits a pixel."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = (pixels[y * PAGE : (y + 1) * PAGE] for y in range(PAGE))
    packed = b"".join(b"\0" + bytes(row[x] << PALETTE_BITS | row[x + 1] for x in range(0, PAGE, 2)) for row in rows)
    colours = bytes(value for shade in palette for value in shade)
    header = struct.pack(">IIBBBBB", PAGE, PAGE, PALETTE_BITS, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"PLTE", colours) + chunk(b"IDAT", zlib.compress(packed, 9)) + chunk(b"IEND", b"")


def rows_of(page, number, colours):
    for colour in colours:
        extra = {"file_name": f"{FILE}.pdf", "reference_page": [number], "question": question(colour, page.title)}
        yield {"id": f"{number}-{colour}", "extra_info": extra, "reward_model": {"ground_truth": page.numbers[page.cell_of(colour)]}}


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def make_world(seed):
    """([pages], rows for training, held-out rows); the number of a page is its place, counted from 1."""
    rng = random.Random(seed)
    pages = [draw_page(rng, title) for title in TITLES]
    held_out = set(rng.sample(range(1, len(pages) + 1), HELD_OUT_PAGES))
    train, test = [], []
    for number, page in enumerate(pages, 1):
        colours = [colour for colour in page.colours if colour is not None]
        if number in held_out:
            test += rows_of(page, number, rng.sample(colours, HELD_OUT_QUESTIONS))
        else:
            train += rows_of(page, number, colours)
    return pages, train, test


def main():
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="created if missing")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--blank", action="store_true")
    arguments = parser.parse_args()
    pages, train, test = make_world(arguments.seed)
    images = arguments.out / "images"
    images.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(pages, 1):
        content = png(bytes(PAGE * PAGE), PALETTE) if arguments.blank else png(page.pixels, page.palette)
        (images / f"{FILE}_{number}.png").write_bytes(content)
    records = ({"id": f"{FILE}_{number}", "width": PAGE, "height": PAGE, "words": page.words} for number, page in enumerate(pages, 1))
    write_lines(arguments.out / "pages.jsonl", records)
    write_lines(arguments.out / "train.jsonl", train)
    write_lines(arguments.out / "heldout.jsonl", test)


if __name__ == "__main__":
    main()
