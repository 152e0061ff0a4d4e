"""Pages as the environment shows them, as arrays of pixels [height, width, 3]."""

import numpy as np
from PIL import Image

from .pages import PAGE, SHOWN_PAGE
from .viewing import shown_size


def page_pixels(page):
    return np.array(page.palette, np.uint8)[np.frombuffer(page.pixels, np.uint8).reshape(PAGE, PAGE)]


def shown_page(page):
    """The page at half its size, by means of four pixels. The environment resamples in another way, which makes no difference to the model."""
    halves = page_pixels(page).reshape(SHOWN_PAGE, 2, SHOWN_PAGE, 2, 3).astype(np.float32)
    return np.rint(halves.mean((1, 3))).astype(np.uint8)


def shown_cell(page, box):
    """A box of one cell, or of the whole page."""
    left, top, right, bottom = (2 * side for side in box)
    return shown_page(page) if right - left == PAGE else page_pixels(page)[top:bottom, left:right]


def crop_picture(page, area):
    """Resamples as the environment does."""
    cut = Image.fromarray(page_pixels(page)).crop(area)
    return np.asarray(cut.resize(shown_size(*cut.size), Image.Resampling.LANCZOS))
