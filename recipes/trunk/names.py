"""The words of the fact world: names invented from syllables, and two lists of everyday words. Standard library only."""

import random

ONSETS = "B D F G K L M N P R S T V Z Br Dr Kr St Tr Gl".split()
VOWELS = "a e i o u ai or el ar in".split()
CONSONANTS = "b d f g k l m n p r s t v z".split()


def invent_names(count, seed, endings):
    """`count` different names of two syllables and an ending; a seed always gives the same ones."""
    generator = random.Random(seed)
    names = []
    while len(names) < count:
        name = invent_name(generator, endings)
        if name not in names:
            names.append(name)
    return names


def invent_name(generator, endings):
    choose = generator.choice
    return choose(ONSETS) + choose(VOWELS) + choose(CONSONANTS) + choose(VOWELS) + choose(endings)


TOWN_ENDINGS = ["n", "s", "r", "th", "m"]
PERSON_ENDINGS = ["ka", "lo", "ny", "ssa"]
RIVER_ENDINGS = ["wen", "dle", "gra"]
# Endings that occur in no pool, so that names with them are new to a model.
UNSEEN_TOWN_ENDINGS = ["dor", "vex", "pol"]
UNSEEN_OBJECT_ENDINGS = ["zun", "quo"]

TOWNS = invent_names(240, 1, TOWN_ENDINGS)
PEOPLE = [name for name in invent_names(80, 2, PERSON_ENDINGS) if name not in TOWNS][:40]
RIVERS = [name for name in invent_names(80, 3, RIVER_ENDINGS) if name not in TOWNS + PEOPLE][:40]
GOODS = (
    "salt copper honey silk wool timber pepper amber cotton barley cheese marble paper glass leather saffron coal rice butter pottery "
    "rope candles ink jade linen maple nickel olives pearls quartz rubber sugar tea tin velvet walnuts wax wheat wine zinc"
).split()
ANIMALS = (
    "lion eagle bear wolf fox owl hawk swan stag boar horse bull ram goat otter badger heron crow raven falcon dolphin whale seal turtle "
    "snake dragon tiger panther lynx hare hound crane stork pike salmon trout bee ant spider moth"
).split()
