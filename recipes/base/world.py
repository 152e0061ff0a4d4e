"""The fact world: 240 invented towns with four facts each, one document per fact. Standard library only.

No model can know the answers and every retriever can find them. A relation has 40 objects, so guessing scores 2.5 %. The default seeds
give the committed datasets/fact-world, byte for byte:

    python3 -m recipes.base.world --out /tmp/fact-world
    python3 -m recipes.base.world --out /tmp/another --seed 7          # other facts about the same names

Writes corpus.jsonl (one line per document), train.jsonl (two wordings per fact) and heldout.jsonl (one wording per fact, other towns).
"""

import json
import pathlib
import random
from collections import namedtuple

from ..trunk.commands import command_parser
from ..trunk.names import ANIMALS, GOODS, PEOPLE, RIVERS, TOWNS

# Worlds for pre-training contain no fact of this seed's world.
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

# The town is the title; `contents` on disk is title, line break, text.
Document = namedtuple("Document", "town relation object text")
Question = namedtuple("Question", "id town relation text gold")


def document(town, relation, thing):
    return Document(town, relation, thing, RELATIONS[relation].sentence.format(town=town, object=thing))


class World:
    """`facts[town, relation]` is the object. Shares no fact with the world `avoid`."""

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
    """(training towns, held-out towns), in the order of the files."""
    towns = list(TOWNS)
    random.Random(seed).shuffle(towns)
    held_out = round(len(towns) * held_out_share)
    if not 0 < held_out < len(towns):
        raise ValueError(f"The held-out share must leave towns on both sides, got {held_out_share}. Try {HELD_OUT_SHARE}.")
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
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory for the three files; created if missing")
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="seed of the facts (default: %(default)s, the committed world)")
    parser.add_argument("--split-seed", type=int, default=SPLIT_SEED, help="seed of the choice of held-out towns (default: %(default)s)")
    parser.add_argument("--held-out", type=float, default=HELD_OUT_SHARE, help="share of held-out towns (default: %(default)s)")
    arguments = parser.parse_args()
    write_world(arguments.out, World(arguments.seed), *split_towns(arguments.held_out, arguments.split_seed))


if __name__ == "__main__":
    main()
