"""The errors of the worker for vision-language bases that it refuses, and its three-axis positions compared with transformers' `get_rope_index`, over random packed sequences.

Reads from stdin {"worker": DIR, "refused": [model directories], "taken": [model directories]}; writes {"refused": [messages], "different": [batches whose
positions differ, of BATCHES], "unseen": message where no folder of images is known} to stdout, all JSON.
"""

import json
import random
import sys

import numpy
import torch

BATCHES = 200
PAD, TEXT = 1, 7


def refusal(act):
    from failure import Failure

    try:
        act()
    except Failure as failure:
        return failure.text
    return None


def random_batch(draw):
    """Ids and grids (rows and columns of tokens) of each sequence. One text token at least between two pictures: get_rope_index tells them apart by it."""
    for _ in range(draw.randint(1, 4)):
        ids, grids = [TEXT] * draw.randint(0, 9), []
        for _ in range(draw.randint(0, 3)):
            rows, columns = draw.randint(1, 9), draw.randint(1, 9)
            grids.append((len(ids), rows, columns))
            ids += [PAD] * (rows * columns) + [TEXT] * draw.randint(1, 9)
        yield ids or [TEXT], grids


def differs(model, merge, draw):
    from pictures import PlacedPicture
    from vision import Seen, positions

    offsets, placed, seen, expected = [0], [], [], []
    for sequence, (ids, grids) in enumerate(random_batch(draw)):
        placed += [PlacedPicture(sequence, "", offsets[-1] + start, rows * columns) for start, rows, columns in grids]
        seen += [Seen(torch.empty(0), rows, columns) for _, rows, columns in grids]
        given = torch.tensor([ids])
        grid = torch.tensor([[1, rows * merge, columns * merge] for _, rows, columns in grids]) if grids else None
        expected.append(model.get_rope_index(given, mm_token_type_ids=(given == PAD).int(), image_grid_thw=grid)[0][:, 0].numpy())
        offsets.append(offsets[-1] + len(ids))
    return not numpy.array_equal(positions(numpy.array(offsets, numpy.int32), placed, seen), numpy.concatenate(expected, axis=1))


def main():
    request = json.load(sys.stdin)
    sys.path.insert(0, request["worker"])
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    from base import load_base
    from pictures import PlacedPicture

    load = lambda path: load_base(path, torch.device("cpu"), torch.float32, False)
    taken = [load(path) for path in request["taken"]]
    draw = random.Random(3)
    merge = 2
    json.dump(
        {
            "refused": [refusal(lambda: load(path)) for path in request["refused"]],
            "different": [sum(differs(base.model.model, merge, draw) for _ in range(BATCHES)) for base in taken],
            "unseen": refusal(lambda: taken[0].vision.see([PlacedPicture(0, "a" * 64, 0, 4)])),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
