"""Episodes of visual-rag with good and bad habits, and drills of single skills, for pre-training. Standard library only.

A text is a list of (text, author): the model learns MODEL text fully, ENVIRONMENT text a little. Every piece of MODEL text ends a turn.

Habits, drawn at every turn (shares in HABITS):
- before a page: `search` the page of the question's town, `other` town's page, `complete` at once, `broken` tag
- before a crop: `box` of the figure below the label, `other` figure's box, `label`: the label's own box, `whole` page, `complete`, `broken` tag
- after a crop: `complete`, `again`: another figure's box, `broken` tag
"""

from ..trunk.names import TOWNS
from .pages import FIGURES, LABELS, draw_page, question
from .texts import INVALID_ACTION, WHOLE_PAGE, bridge, crop_text, page_text, prompt

ENVIRONMENT, MODEL = 0, 1
MAX_TURNS = 6

GOOD = {
    "page": {"search": 1.0},
    "crop": {"box": 1.0},
    "end": {"complete": 1.0},
}
HABITS = {
    "page": {"search": 0.70, "other": 0.15, "complete": 0.08, "broken": 0.07},
    "crop": {"box": 0.34, "other": 0.24, "label": 0.10, "whole": 0.08, "complete": 0.14, "broken": 0.10},
    "end": {"complete": 0.80, "again": 0.13, "broken": 0.07},
}


def pick(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


def box_text(box):
    return f"[{', '.join(map(str, box))}]"


def search_turn(town, closed=True):
    return f"<think>Find {town}</think>\n<search>page of {town}" + ("</search>" if closed else "")


def box_turn(label, box, closed=True):
    return f"<think>Below {label}\n{box_text(box)}</think>\n<bbox>{box_text(box)}" + ("</bbox>" if closed else "")


def label_turn(label, box):
    return f"<think>Enlarge {label}\n{box_text(box)}</think>\n<bbox>{box_text(box)}</bbox>"


def whole_turn():
    return f"<think>Enlarge the page\n{box_text(WHOLE_PAGE)}</think>\n<bbox>{box_text(WHOLE_PAGE)}</bbox>"


def complete_turn(closed=True):
    return "<think>Enough</think>\n<search_complete>true" + ("</search_complete>" if closed else "")


def episode(rng, habits=GOOD):
    """[(text, author)] of a whole episode, the prompt first."""
    town, label = rng.choice(TOWNS), rng.choice(LABELS)
    pieces = [(prompt(question(label, town)), ENVIRONMENT)]
    page, is_cropped = None, False
    for turn in range(MAX_TURNS):
        habit = pick(rng, habits["page" if page is None else "end" if is_cropped else "crop"])
        said, seen, page, is_cropped = act(rng, habit, (town, label), page, is_cropped)
        pieces.append((said, MODEL))
        if seen is None:
            break
        if turn < MAX_TURNS - 1:
            pieces.append((bridge(seen), ENVIRONMENT))
    return pieces


def act(rng, habit, asked, page, is_cropped):
    """(the policy's text, the observation or None at the end, the page that it sees, true if it has cut something out)"""
    town, label = asked
    if habit == "broken":
        return broken_turn(rng, asked, page, is_cropped), INVALID_ACTION, page, is_cropped
    if habit == "complete":
        return complete_turn(), None, page, is_cropped
    if page is None:
        shown = town if habit == "search" else rng.choice([other for other in TOWNS if other != town])
        page = town_page(rng, shown, label if habit == "search" else None)
        return search_turn(shown), page_text(page), page, False
    said, box = box_habit(rng, habit, label, page)
    return said, crop_text(page, box), page, True


def town_page(rng, town, label):
    """A random page with the label on it, if one is asked for."""
    labels = rng.sample(LABELS, FIGURES)
    if label is not None and label not in labels:
        labels[rng.randrange(FIGURES)] = label
    return draw_page(rng, town, labels)


def box_habit(rng, habit, label, page):
    right = [figure for figure in page.figures if figure.label == label]
    others = [figure for figure in page.figures if figure.label != label]
    if habit == "whole":
        return whole_turn(), WHOLE_PAGE
    if habit == "label":
        figure = rng.choice(right or others)
        return label_turn(figure.label, figure.label_box), figure.label_box
    figure = rng.choice(right if right and habit == "box" else others)
    return box_turn(figure.label, figure.value_box), figure.value_box


def broken_turn(rng, asked, page, is_cropped):
    if page is None:
        return search_turn(asked[0], closed=False)
    if is_cropped:
        return complete_turn(closed=False)
    figure = rng.choice(page.figures)
    return box_turn(figure.label, figure.value_box, closed=False)


def repetition(rng, pieces, longest=32, length=90):
    """A string of random pieces, again and again: copying is learned from it first."""
    prefix = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 12)))
    size = rng.randint(4, longest)
    string = "".join(rng.choice(pieces) for _ in range(size))
    return [(f"{prefix}\n{string}", ENVIRONMENT), (string * max(1, length // size - 1), MODEL)]


def page_drill(rng):
    """A page, then the box of every figure on it in random order: six lookups for the cost of one page."""
    page = draw_page(rng, rng.choice(TOWNS))
    pieces = [(page_text(page), ENVIRONMENT)]
    for figure in rng.sample(page.figures, FIGURES):
        pieces += [("\n", ENVIRONMENT), (box_turn(figure.label, figure.value_box), MODEL)]
    return pieces


def question_drill(rng):
    """Questions, each followed by the search for its page."""
    pieces = []
    for _ in range(6):
        town = rng.choice(TOWNS)
        pieces += [(f"Question: {question(rng.choice(LABELS), town)}\n", ENVIRONMENT), (search_turn(town), MODEL)]
    return pieces
