"""The model's training texts: drills of sight, and episodes in the environment's form.

A sequence is a list of (content, weight). The content is a string or a picture (an array of pixels); the weight is that of its tokens in the loss.
"""

from .pages import NAMES, TITLES, draw_page
from .pictures import shown_cell, shown_page
from .square_habits import LOOKS, SEARCHES, draw_episode, place
from .texts import END_OF_TURN, NEXT_REPLY, OBSERVATION_HEAD, START_OF_TURN, asked


def sight(rng):
    """A page, then its cells in reading order, then the place of each colour: the drill that teaches sight and position."""
    page = draw_page(rng, rng.choice(TITLES))
    parts = [(f"{START_OF_TURN}user\n", 0), (shown_page(page), 0), (NEXT_REPLY, 0)]
    parts.append(("".join(f" {colour or 'none'}" for colour in page.colours), 1))
    for name in rng.sample(NAMES, len(NAMES)):
        if name in page.colours:
            parts += [(f" {name}", 0), (f" {place(page.cell_of(name))}", 1)]
    return parts


def episode(rng, searches=SEARCHES, looks=LOOKS):
    """The text after the prompt's head."""
    colour, title, steps = draw_episode(rng, searches, looks)
    parts = [(asked(colour, title), 0)]
    for step in steps:
        if isinstance(step, str):
            parts.append((step + END_OF_TURN, 1))
        else:
            picture = shown_page(step.page) if step.box is None else shown_cell(step.page, step.box)
            parts += [(OBSERVATION_HEAD, 0), (picture, 0), (NEXT_REPLY, 0)]
    return parts
