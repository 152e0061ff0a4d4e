"""Makes datasets/mini-python: held-out tasks and tasks to start from, for any seed. Standard library only.

    python3 -m recipes.coder.tasks --out DIR [--seed N] [--held-out 200] [--train 30]

Every row is a program as data: `{id, kind, code, input, output}` with reprs of values, or for code_f `{id, kind, code, inputs, outputs, message}`.
The programs of held-out tasks are in no other set and in no pre-training: those of code_o and code_i have two to five statements in equal parts, those of
code_f two or three. Without options this gives the committed files, byte for byte.
"""

import json
import pathlib
import random

from ..trunk.commands import command_parser
from .episodes import draw_induction
from .language import draw_invertible, trace

SEED = 20260002
KINDS = ("code_o", "code_i", "code_f")
HELD_OUT_LENGTHS = {"code_o": (2, 3, 4, 5), "code_i": (2, 3, 4, 5), "code_f": (2, 3)}
TRAIN_LENGTHS = {"code_o": (1, 2), "code_i": (1, 2), "code_f": (1, 2)}


def row_of(kind, length, number, program, inputs):
    head = {"id": f"{kind}-{length}-{number:03}", "kind": kind, "code": program.code}
    if kind != "code_f":
        return {**head, "input": repr(program.value), "output": repr(program.output)}
    outputs = [repr(trace(program.statements, value)[-1]) for value in inputs]
    return {**head, "inputs": [repr(value) for value in inputs], "outputs": outputs, "message": program.names}


def draw_rows(rng, count, lengths, taken):
    """`count` rows of each kind; their programs are added to `taken` and occur once."""
    rows = []
    for kind in KINDS:
        for number in range(count):
            length = lengths[kind][number % len(lengths[kind])]
            program, inputs = draw_induction(rng, length, taken) if kind == "code_f" else (draw_invertible(rng, length, taken), None)
            taken.add(program.code)
            rows.append(row_of(kind, length, number, program, inputs))
    return rows


def held_out_rows(seed=SEED, count=200):
    return draw_rows(random.Random(seed), count, HELD_OUT_LENGTHS, set())


def held_out_codes(seed=SEED):
    """The code of every held-out program."""
    return frozenset(row["code"] for row in held_out_rows(seed))


def train_rows(held_out, seed=SEED, count=30):
    return draw_rows(random.Random(seed + 1), count, TRAIN_LENGTHS, {row["code"] for row in held_out})


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for heldout.jsonl and train.jsonl; created if missing")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--held-out", type=int, default=200, help="tasks of each kind (default: %(default)s)")
    parser.add_argument("--train", type=int, default=30, help="tasks of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    held_out = held_out_rows(arguments.seed, arguments.held_out)
    write(arguments.out / "heldout.jsonl", held_out)
    write(arguments.out / "train.jsonl", train_rows(held_out, arguments.seed, arguments.train))


if __name__ == "__main__":
    main()
