"""The subject of an episode: a question of one or two hops, the passages that answer it, and passages that nearly do. Standard library only.

A passage says "The RELATION of SUBJECT VERB ANSWER." or any other words that end as the question does and go on with the answer. Every word is invented, but
for the common ones of `texts.COMMON_WORDS`; no word is reserved for evaluation (words.py).
"""

from dataclasses import dataclass

from .words import invent_name, invent_number, invent_word, is_allowed

JOINTS = ("of", "of", "of", "of", "of", "in", "by", "for", "from", "on")
VERBS = ("is", "is", "is", "was", "was", "in", "by", "at", "are", "=")
FIRST_WORDS = ("What", "What", "What", "Which", "Who", "Where", "When", "In which", "How")
# Chance that a passage of an episode is similar to the answer's: same relation or same subject.
NEAR_SHARE = 0.7


@dataclass(frozen=True)
class Fact:
    """`key` is the end of the question; `verb` and `answer` follow it in `passage`, a title and a text."""

    key: str
    verb: str
    answer: str
    title: str
    text: str


@dataclass(frozen=True)
class Scene:
    """`facts` has one for each hop, `others` the other passages of each; `relation` is the relation of the first answer that a second search looks for."""

    question: str
    facts: list
    others: list
    relation: str | None = None
    joint: str = "of"


def words(rng, low, high):
    return " ".join(invent_word(rng) for _ in range(rng.randint(low, high)))


def names(rng, low, high):
    return " ".join(invent_name(rng) for _ in range(rng.randint(low, high)))


def draw_answer(rng):
    share = rng.random()
    if share < 0.52:
        return invent_name(rng)
    if share < 0.68:
        return invent_number(rng)
    if share < 0.83:
        return words(rng, 1, 1 if rng.random() < 0.7 else 2)
    return f"{invent_name(rng)} {invent_word(rng)} {invent_name(rng)}" if share < 0.89 else names(rng, 2, 3)


def draw_verb(rng):
    share = rng.random()
    if share < 0.5:
        return rng.choice(VERBS)
    if share < 0.6:
        return f"{rng.choice(VERBS)} the"
    if share < 0.85:
        return f"{rng.choice(VERBS)} {words(rng, 1, 2)}" + (f" {rng.choice(('in', 'by', 'as', 'to'))}" if rng.random() < 0.4 else "")
    return words(rng, 1, 2)


def filler(rng):
    """A sentence of no use, sometimes with names."""
    parts = [rng.choices((invent_word, invent_name, invent_number), (6, 3, 1))[0](rng) for _ in range(rng.randint(3, 7))]
    parts[0] = parts[0][0].upper() + parts[0][1:]
    if rng.random() < 0.4:
        parts.insert(rng.randrange(1, len(parts)), rng.choice(("the", "of", "in", "is", "and", "of the")))
    return " ".join(parts) + "."


def inflected(text):
    """The words with another ending, unless that makes a word of an evaluation."""
    last = f"{text}ed".split()[-1]
    return f"{text}ed" if is_allowed(last) else text


def upper_first(text):
    return text[0].upper() + text[1:]


class Phrasing:
    """The wording of an episode's passages: usually the same for all."""

    def __init__(self, rng):
        self.rng = rng
        self.article = "the " if rng.random() < 0.85 else ""
        self.joint = rng.choice(JOINTS) if rng.random() < 0.85 else invent_word(rng)
        self.verb = draw_verb(rng)
        self.varied_verbs = rng.random() < 0.2
        self.fillers = rng.choice((0.0, 0.0, 0.0, 0.4))
        self.tail = rng.choice((0.0, 0.0, 0.5))
        self.quoted = rng.random() < 0.2

    def fact(self, key, answer, title, head=""):
        rng = self.rng
        verb = draw_verb(rng) if self.varied_verbs else self.verb
        tail = f", {words(rng, 1, 3)} {rng.choice(('of', 'in', 'and'))} {invent_name(rng)}" if rng.random() < self.tail else ""
        text = f"{upper_first(f'{head or self.article}{key}')} {verb} {answer}{tail}."
        if rng.random() < self.fillers:
            text = f"{filler(rng)} {text}" if rng.random() < 0.6 else f"{text} {filler(rng)}"
        if rng.random() < 0.15:
            title = f"{title} {invent_number(rng)}"
        return Fact(key, verb, answer, f'"{title}"' if self.quoted else title, text)


def ask(rng, rest):
    """A question that ends with `rest`."""
    first = rng.choice(FIRST_WORDS)
    if first in ("Which", "In which", "How") or rng.random() < 0.1:
        first += f" {words(rng, 1, 1)}"
    verb = rng.choice(("is", "is", "is", "was", "did", "does")) if rng.random() < 0.85 else invent_word(rng)
    return f"{first} {verb} {rest}?"


def chain_scene(rng, hops):
    """Relations of subjects: "the R of X", or "the Q of the R of X" for two hops."""
    phrasing = Phrasing(rng)
    article, joint = phrasing.article or "the ", phrasing.joint
    draw_relation = lambda: words(rng, 1, 1 if rng.random() < 0.8 else 2)  # noqa: E731
    relation, second, subject = draw_relation(), draw_relation(), names(rng, 1, 1 if rng.random() < 0.8 else 2)

    def fact(relation, subject, answer=None):
        return phrasing.fact(f"{relation} {joint} {subject}", answer or draw_answer(rng), subject if rng.random() < 0.8 else invent_name(rng))

    def near(relation, other_relation, subject):
        share = rng.random()
        if share < 0.45 * NEAR_SHARE:
            return fact(relation, invent_name(rng))
        if share < NEAR_SHARE:
            return fact(other_relation if rng.random() < 0.3 else draw_relation(), subject)
        return fact(draw_relation(), invent_name(rng))

    count = rng.choice((0, 1, 1, 2, 2, 3))
    if hops == 1:
        answer = fact(relation, subject)
        question = ask(rng, f"{article}{relation} {joint} {subject}")
        return Scene(question, [answer], [[near(relation, second, subject) for _ in range(count)]], joint=joint)
    bridge = names(rng, 1, 1 if rng.random() < 0.85 else 2)
    first, last = fact(relation, subject, bridge), fact(second, bridge)
    question = ask(rng, f"{article}{second} {joint} {article}{relation} {joint} {subject}")
    others = [[near(relation, second, subject) for _ in range(count)], [near(second, relation, bridge) for _ in range(count)]]
    return Scene(question, [first, last], others, relation=second, joint=joint)


def free_scene(rng):
    """Any words: the question's last one to four are in the passage, before the answer."""
    phrasing = Phrasing(rng)

    def any_word():
        share = rng.random()
        return invent_word(rng) if share < 0.5 else invent_name(rng) if share < 0.75 else rng.choice(("the", "of", "in", "on", "to", "at", "and"))

    def phrase(count):
        parts = [any_word() for _ in range(count)]
        parts[-1] = invent_name(rng) if rng.random() < 0.7 else invent_word(rng)
        return " ".join(parts)

    length = rng.choice((1, 2, 3, 3, 4))
    key = phrase(length)
    # The words before: as in the question, changed a little, or other words.
    before = words(rng, 1, 3)
    changed = rng.choice((before, before, inflected(before), words(rng, 1, 3), "", f"{before} that is"))

    def fact(key, head):
        return phrasing.fact(key, draw_answer(rng), names(rng, 1, 2), f"{phrasing.article}{head} ".lstrip() if head else phrasing.article)

    def near():
        if rng.random() < NEAR_SHARE:
            parts = key.split()
            return fact(" ".join([any_word(), *parts[:-1]]) if rng.random() < 0.3 else " ".join([*parts[:-1], invent_name(rng)]), changed)
        return fact(phrase(length), words(rng, 1, 2))

    others = [near() for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    return Scene(ask(rng, f"{before} {key}"), [fact(key, changed)], [others])


def draw_scene(rng, two_hops=0.35, free=0.25):
    share = rng.random()
    return chain_scene(rng, 2) if share < two_hops else free_scene(rng) if share < two_hops + free else chain_scene(rng, 1)
