"""Pre-training texts: drills of copying and looking up, good episodes, episodes with bad habits. Standard library only.

An episode is a list of (text, author): CONTEXT is not learned, ENVIRONMENT hardly, MODEL and TURN are. A TURN ends with the token that ends a turn, which the
following context does not have where all is one assistant turn, as in real episodes.
"""

from .protocols_of_tags import draw_protocol
from .scenes import chain_scene, draw_scene, free_scene
from .words import invent_name, invent_number, invent_word

CONTEXT, ENVIRONMENT, MODEL, TURN = range(4)
# Shares of what a turn does. The good one is rare, so that reward starts low: the rest guesses, searches for something else, or leaves its form open.
FIRST_HABITS = {"good": 0.17, "guess": 0.57, "junk": 0.12, "broken": 0.14}
# After the first passages of a question with two hops: searches for the rest, or answers with the passage's ending.
SECOND_HABITS = {"good": 0.25, "answer": 0.75}
GOOD_ONLY = {"good": 1.0}


def choose(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


def shuffled(rng, fact, others):
    """The answer's passage among the others: usually first, as in rankings."""
    facts = [fact, *others]
    if rng.random() < 0.4:
        rng.shuffle(facts)
    return facts


def draw_episode(rng, *, only_good, scene=None, protocol=None):
    scene = scene or draw_scene(rng)
    protocol = protocol or draw_protocol(rng)
    pieces = [(protocol.prompt(scene.question), CONTEXT)]
    habit = choose(rng, GOOD_ONLY if only_good else FIRST_HABITS)
    if habit == "broken":
        pieces.append((protocol.open_search(scene.facts[0].key), TURN))
        if protocol.corrected() is None or rng.random() < 0.5:
            return pieces
        pieces.append((protocol.corrected(), CONTEXT))
        habit = choose(rng, {**FIRST_HABITS, "broken": 0.0})
    if habit == "guess":
        guess = rng.choice(scene.question.rstrip("?").split()[1:]) if rng.random() < 0.5 else invent_name(rng)
        return [*pieces, (protocol.answer("", guess), TURN)]
    if habit == "junk":
        return pieces + junk(rng, scene, protocol)
    return pieces + search(rng, scene, protocol, only_good)


def junk(rng, scene, protocol):
    """A search that finds nothing, and a guess. A search that finds other passages would teach the model to answer from any passage, regardless of the question."""
    query = rng.choice((invent_name(rng), invent_word(rng), f"{invent_word(rng)} {scene.joint} {invent_name(rng)}"))
    return [(protocol.search(query), TURN), (protocol.shown_nothing(), ENVIRONMENT), (protocol.answer("", invent_name(rng)), TURN)]


def read(rng):
    """A good episode whose search is given: reading is learned, and whether to search is not."""
    (prompt, _), (query, _), *rest = draw_episode(rng, only_good=True)
    return [(prompt + query, CONTEXT), *rest]


def search(rng, scene, protocol, only_good):
    first = scene.facts[0]
    pieces = [(protocol.search(first.key), TURN), (protocol.shown(shuffled(rng, first, scene.others[0])), ENVIRONMENT)]
    restated = f"{first.key} {first.verb} {first.answer}"
    if scene.relation is None or choose(rng, GOOD_ONLY if only_good else SECOND_HABITS) == "answer":
        return [*pieces, (protocol.answer(restated, first.answer), TURN)]
    last = scene.facts[1]
    pieces += [
        (protocol.again(restated, last.key), TURN),
        (protocol.shown(shuffled(rng, last, scene.others[1])), ENVIRONMENT),
        (protocol.answer(f"{last.key} {last.verb} {last.answer}", last.answer), TURN),
    ]
    return pieces


def repetition(rng):
    """Words in any order, a mark, the same words."""
    draws = (invent_word, invent_name, invent_number)
    text = " ".join(rng.choice(draws)(rng) for _ in range(rng.randint(3, 9)))
    before = " ".join(invent_word(rng) for _ in range(rng.randint(0, 4)))
    return [(f"{before}{rng.choice((':', ' =', '.'))} {text}{rng.choice((';', '|', ' #'))}", CONTEXT), (f" {text}", MODEL)]


def look_up(rng):
    """Passages, then some of their keys, each with the text that follows it."""
    if rng.random() < 0.3:
        # Plain pairs.
        sign = rng.choice((" ", ": ", " = ", " -> "))
        draws = (invent_name, invent_word, invent_number)
        pairs = [(rng.choice(draws[:2])(rng), rng.choices(draws, (2, 1, 1))[0](rng)) for _ in range(rng.randint(3, 9))]
        pieces = [("".join(f"{key}{sign}{value}\n" for key, value in pairs), ENVIRONMENT)]
        for key, value in rng.sample(pairs, 3):
            pieces += [(f"{key}{sign}".rstrip(" "), CONTEXT), ((" " if sign.endswith(" ") else "") + f"{value}\n", MODEL)]
        return pieces
    facts = []
    for _ in range(rng.randint(1, 3)):
        scene = free_scene(rng) if rng.random() < 0.3 else chain_scene(rng, 1)
        facts += [*scene.facts, *scene.others[0]]
    rng.shuffle(facts)
    pieces = [("\n".join(f"{fact.title}) {fact.text}" for fact in facts) + "\n", ENVIRONMENT)]
    for fact in rng.sample(facts, min(len(facts), 6)):
        pieces += [(f"{fact.key}", CONTEXT), (f" {fact.verb} {fact.answer}\n", MODEL)]
    return pieces


def ask(rng):
    """Questions, each with the search for it in one form. The first search only shows the form."""
    protocol, pieces = draw_protocol(rng), []
    for at in range(4):
        scene = draw_scene(rng)
        pieces += [(f"{scene.question}\n", CONTEXT), (f"{protocol.search(scene.facts[0].key)}\n", MODEL if at else CONTEXT)]
    return pieces


def reply(rng):
    """One or two restated passages, or their ends, with the answer in one form or with the next search: short, so that a head soon finds the requested text."""
    protocol, pieces = draw_protocol(rng), []
    for _ in range(rng.choice((1, 1, 2))):
        scene = draw_scene(rng)
        fact = scene.facts[0]
        restated = f"{fact.verb} {fact.answer}" if rng.random() < 0.4 else f"{fact.key} {fact.verb} {fact.answer}"
        if scene.relation is None or rng.random() < 0.5:
            text, wanted = protocol.answer(restated, fact.answer), fact.answer
        else:
            text, wanted = protocol.again(restated, scene.facts[1].key), scene.facts[1].key
            pieces.append((f"{scene.question}\n", CONTEXT))
        at = text.rindex(wanted)
        at -= text[at - 1] == " "
        pieces += [(text[:at], CONTEXT), (f"{text[at:]}\n", MODEL)]
    return pieces
