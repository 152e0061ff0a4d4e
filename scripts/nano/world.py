"""The fact world: 240 invented towns, four facts about each, one document a fact. Standard library only.

A model cannot know the answers and every retriever can find them; 40 objects to a relation, so guessing one scores 2.5 %. The committed
datasets/fact-world is the world of the default seeds, byte for byte:

    python3 scripts/nano/world.py --out /tmp/fact-world
    python3 scripts/nano/world.py --out /tmp/another --seed 7          # other facts about the same names

Writes corpus.jsonl (one line a document), train.jsonl (two wordings a fact) and heldout.jsonl (one wording a fact, other towns).
"""

import argparse
import json
import pathlib
import random
from collections import namedtuple

from names import ANIMALS, GOODS, PEOPLE, RIVERS, TOWNS

# The facts of this seed are kept out of every world that a model is pre-trained on.
EVALUATION_SEED = 20261121
SPLIT_SEED = 5
HELD_OUT_SHARE = 0.25

Relation = namedtuple("Relation", "objects sentence questions query")
RELATIONS = {
    "mayor": Relation(
        PEOPLE, "The mayor of {town} is {object}.", ["Who is the mayor of {town}?", "Which person is the mayor of {town}?"], "mayor of {town}"
    ),
    "river": Relation(
        RIVERS, "The river of {town} is {object}.", ["What is the river of {town}?", "Tell me the river of {town}?"], "river of {town}"
    ),
    "export": Relation(
        GOODS,
        "The main export of {town} is {object}.",
        ["What is the main export of {town}?", "Which good is the main export of {town}?"],
        "export of {town}",
    ),
    "emblem": Relation(
        ANIMALS, "The emblem of {town} is {object}.", ["Which animal is the emblem of {town}?", "What is the emblem of {town}?"], "emblem of {town}"
    ),
}

# `title` is the town; `contents` on disk is title, line break, text.
Document = namedtuple("Document", "town relation object text")
Question = namedtuple("Question", "id town relation text gold")


def document(town, relation, thing):
    return Document(town, relation, thing, RELATIONS[relation].sentence.format(town=town, object=thing))


class World:
    """`facts[town, relation]` is the object. With `avoid`, no fact of that world is one of this one."""

    def __init__(self, seed, avoid=None):
        generator = random.Random(seed)
        self.facts = {}
        for town in TOWNS:
            for relation, (objects, *_) in RELATIONS.items():
                thing = generator.choice(objects)
                while avoid and avoid.facts[town, relation] == thing:
                    thing = generator.choice(objects)
                self.facts[town, relation] = thing
        self.documents = [document(town, relation, thing) for (town, relation), thing in self.facts.items()]

    def question(self, town, relation, wording, suffix):
        text = RELATIONS[relation].questions[wording].format(town=town)
        return Question(f"fw_{TOWNS.index(town):03d}_{relation}_{suffix}", town, relation, text, self.facts[town, relation])


def split_towns(held_out_share=HELD_OUT_SHARE, seed=SPLIT_SEED):
    """(towns to train on, towns held out), in the order of the files."""
    towns = list(TOWNS)
    random.Random(seed).shuffle(towns)
    held_out = round(len(towns) * held_out_share)
    if not 0 < held_out < len(towns):
        raise ValueError(f"Expected a held-out share that leaves towns on both sides, got {held_out_share}: try {HELD_OUT_SHARE}")
    return towns[: len(towns) - held_out], towns[len(towns) - held_out :]


def train_questions(world, towns):
    """Every fact of the towns in both wordings."""
    return [world.question(town, relation, wording, wording) for town in towns for relation in RELATIONS for wording in (0, 1)]


def held_out_questions(world, towns):
    """Every fact of the towns once; the wordings alternate from town to town and from relation to relation."""
    return [world.question(town, relation, (i + j) % 2, "h") for i, town in enumerate(towns) for j, relation in enumerate(RELATIONS)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_world(directory, world, train_towns, held_out_towns):
    directory.mkdir(parents=True, exist_ok=True)
    write_jsonl(
        directory / "corpus.jsonl", [{"id": str(i), "contents": f"{entry.town}\n{entry.text}"} for i, entry in enumerate(world.documents)]
    )
    for name, questions in (("train", train_questions(world, train_towns)), ("heldout", held_out_questions(world, held_out_towns))):
        write_jsonl(directory / f"{name}.jsonl", [{"id": q.id, "question": q.text, "golden_answers": [q.gold]} for q in questions])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory for the three files; made if missing")
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="of the facts (default: %(default)s, the committed world)")
    parser.add_argument("--split-seed", type=int, default=SPLIT_SEED, help="of the choice of held-out towns (default: %(default)s)")
    parser.add_argument("--held-out", type=float, default=HELD_OUT_SHARE, help="share of the towns held out (default: %(default)s)")
    arguments = parser.parse_args()
    write_world(arguments.out, World(arguments.seed), *split_towns(arguments.held_out, arguments.split_seed))


if __name__ == "__main__":
    main()
