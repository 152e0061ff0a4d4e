"""Reads a turn and cuts out a box like the environment, for the model's own turns. Needs only python3."""

import json
import re

from .pages import PAGE, SHOWN_PAGE

# The environment's options for these pages: `shown_pixels`, the unit of the model, `legible_px`.
MIN_PIXELS, MAX_PIXELS, UNIT, LEGIBLE = 64 * 64, SHOWN_PAGE**2, 32, 9


def read_action(text):
    """(name, content) of the first closed action; (None, "") without one."""
    found = re.search(r"<(search|bbox|search_complete)>(.*?)</\1>", text, re.DOTALL)
    return (found[1], found[2].strip()) if found else (None, "")


def read_box(text):
    """Four numbers that are at least 0, or None."""
    try:
        box = json.loads(text)
    except ValueError:
        return None
    is_box = isinstance(box, list) and len(box) == 4 and all(isinstance(side, int | float) and side >= 0 for side in box)
    return box if is_box else None


def crop_area(box):
    """The area of the page that a box on the shown page cuts out; None if nothing is left."""
    left, top, right, bottom = (int(min(PAGE, PAGE * side / SHOWN_PAGE)) for side in box)
    return None if right <= left or bottom <= top else (left, top, right, bottom)


def shown_size(width, height):
    """The size at which the environment shows a picture."""

    def scaled(limit):
        factor = (limit / (width * height)) ** 0.5
        return int(width * factor), int(height * factor)

    if width * height > MAX_PIXELS:
        width, height = scaled(MAX_PIXELS)
    if width * height < MIN_PIXELS:
        width, height = scaled(MIN_PIXELS)
    return tuple(max(1, int(side / UNIT + 0.5)) * UNIT for side in (width, height))


def legible_numbers(page, area):
    """The numbers that the built-in reader can read on a crop, in reading order. It answers with the first."""
    left, top, right, bottom = area
    scale = shown_size(right - left, bottom - top)[1] / (bottom - top)
    inside = [word for word in page.words if left <= (word[1] + word[3]) / 2 < right and top <= (word[2] + word[4]) / 2 < bottom]
    return [text for text, _, above, _, below, _ in inside if text.isdigit() and (below - above) * scale >= LEGIBLE]
