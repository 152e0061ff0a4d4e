"""Episodes with good and bad habits: the policy's text, and the page or box that it is shown. Draws no pictures, so it needs only python3."""

from dataclasses import dataclass

from .pages import CELLS, SHOWN_PAGE, TITLES, cell_box, draw_page
from .texts import box_turn, complete_turn, search_turn

NAMED = "I look for the page."
LOOSE = "Some page."
GUESS = "Any square."
WHOLE = "All of it."
BARE = "I saw the page."
DONE = "I saw the square."
NO_SEARCH = "I know it."
THOUGHTS = [NAMED, LOOSE, "I see red 64 32.", GUESS, WHOLE, BARE, DONE, NO_SEARCH]
# Shares of the first turn, and of the turn after a page.
SEARCHES = {"named": 0.78, "loose": 0.17, "none": 0.05}
LOOKS = {"look": 0.33, "guess": 0.37, "whole": 0.12, "none": 0.18}
GOOD_SEARCHES, GOOD_LOOKS = {"named": 1.0}, {"look": 1.0}
# Share of loose queries that are one word of the title. The others are another page's title.
ONE_WORD = 0.4


@dataclass(frozen=True)
class Shown:
    page: object
    # A box on the shown page; None if the whole page is shown.
    box: list | None = None


def place(cell):
    left, top, *_ = cell_box(cell)
    return f"{left} {top}"


def chosen(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


def draw_episode(rng, searches=SEARCHES, looks=LOOKS):
    """(colour, title, steps): a step is the policy's text in a turn (str), or the page or part that it is shown then
    (`Shown`). An episode has one search, one look and the end."""
    title = rng.choice(TITLES)
    page = draw_page(rng, title)
    colour = rng.choice([colour for colour in page.colours if colour is not None])
    search = chosen(rng, searches)
    if search == "none":
        return colour, title, [complete_turn(NO_SEARCH)]
    if search == "named":
        steps = [search_turn(NAMED, title)]
    else:
        page = draw_page(rng, rng.choice(TITLES))
        steps = [search_turn(LOOSE, rng.choice(title.split()) if rng.random() < ONE_WORD else rng.choice(TITLES))]
    steps.append(Shown(page))
    look = chosen(rng, looks)
    if look == "look" and colour not in page.colours:
        look = "guess"
    if look == "none":
        return colour, title, [*steps, complete_turn(BARE)]
    if look == "look":
        cell = page.cell_of(colour)
        thought, box = f"I see {colour} {place(cell)}.", cell_box(cell)
    elif look == "guess":
        thought, box = GUESS, cell_box(rng.randrange(CELLS * CELLS))
    else:
        thought, box = WHOLE, [0, 0, SHOWN_PAGE, SHOWN_PAGE]
    return colour, title, [*steps, box_turn(thought, box), Shown(page, box), complete_turn(DONE)]
