"""Invented words of pre-training, and the rule that keeps every word of the evaluation worlds out of it. Standard library only.

A word belongs to pre-training or to evaluation by its CRC-32: `is_reserved` is true for a quarter of all words, lower-cased, and `invent_word` never returns
one of them, nor a word of the rows that `vf-init` writes. scripts/proof/strange-world.ts takes only reserved words, so no script here can produce a name,
a relation or a passage of such a world. test/recipes/copy checks both sides.
"""

import random
import zlib

VOWELS = "a e i o u ai or el ar in y oa ee ui".split()
CONSONANTS = "b c d f g h j k l m n p qu r s t v w x z br dr kr st tr gl sh th ch nt rs ld mp".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OTHER_LETTERS = "åäéèêëíîñóöøúüçабвгдежзиклмнопрстуфхцчшэюяαβγδεζηθικλμνξοπρστυφχψω漢字東京山川日本"
RESERVED_SHARE = 4
# Words of src/templates/template-rows.ts by which a run may be judged.
TEMPLATE_WORDS = frozenset(
    (
        "11 1969 1989 28 africa air all amadeus amazon america andes apollo around astronauts berlin body breathe canada capital carried cervantes city "
        "closest composed conducted covers currency da de don earth eight fall feed fell fights first flute four gas graze hangs has herds human islands "
        "japan keeps kenya kilimanjaro knight la large largest leonardo lies liquid lisa lisbon longest louvre magic makes mancha mercury metal metals "
        "miguel mixture mona moon most mount mountain mouth mozart nairobi nearly nitrogen ocean oceans organ organs ottawa our pacific painted parted "
        "people performance planet planets portrait portugal provinces quicksilver quixote rainforest river rivers room sight skin snow solar solid south "
        "sun system tagus tallest temperature ten three top towers travel up vinci volcano walk walked wall warm water we windmills within wolfgang written "
        "wrote year years yen"
    ).split()
)


class WordRandom(random.Random):
    """A generator that may hold a few `syllables`, of which it then makes most words: they share pieces, so that copying needs more than the previous piece."""

    syllables = ()

    def choose_syllables(self, share):
        """Begins the next episode: draws a few syllables in this share of cases, else none."""
        self.syllables = tuple(self.choice(CONSONANTS) + self.choice(VOWELS) for _ in range(self.randint(4, 8))) if self.random() < share else ()


def is_reserved(word):
    """True for words that pre-training must not contain."""
    return zlib.crc32(word.lower().encode()) % RESERVED_SHARE == 0


def is_allowed(word):
    return not is_reserved(word) and word.lower() not in TEMPLATE_WORDS


def of_syllables(rng):
    return "".join(rng.choice(rng.syllables) for _ in range(rng.randint(2, 4))) + (rng.choice(CONSONANTS) if rng.random() < 0.3 else "")


def syllables(rng):
    count = rng.choice((1, 2, 2, 2, 3))
    word = "".join((rng.choice(CONSONANTS) if i or rng.random() < 0.8 else "") + rng.choice(VOWELS) for i in range(count))
    return word + (rng.choice(CONSONANTS) if rng.random() < 0.5 else "")


def letters(rng):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 9)))


def foreign(rng):
    return "".join(rng.choice(OTHER_LETTERS if rng.random() < 0.5 else LETTERS) for _ in range(rng.randint(2, 6)))


def invent_word(rng):
    """A word in lower case, of syllables, of random letters or, rarely, with letters beyond ASCII."""
    while True:
        share = rng.random()
        known = of_syllables if rng.syllables else syllables
        word = known(rng) if share < 0.7 else letters(rng) if share < 0.96 else foreign(rng)
        if is_allowed(word):
            return word


def invent_name(rng):
    """A capitalised word, rarely two joined by a hyphen or an apostrophe."""
    word = invent_word(rng)
    if rng.random() < 0.03:
        word += rng.choice("-'") + invent_word(rng)
    return word[0].upper() + word[1:]


def invent_number(rng):
    while True:
        number = str(rng.randint(0, 10 ** rng.randint(1, 4)))
        if is_allowed(number):
            return number
