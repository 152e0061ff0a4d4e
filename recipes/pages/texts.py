"""The texts of the environment visual-rag in `ocr` mode that the nano model sees. Standard library only.

The environment in the package is the reference; test/recipes/pages compares the two.
"""

import math
from fractions import Fraction

from .pages import HEIGHT, SCALE, WIDTH, page_lines

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TAGS = [f"<{slash}{name}>" for name in ("think", "search", "bbox", "search_complete") for slash in ("", "/")]

SYSTEM_LINES = [
    "You collect evidence for a question from a collection of document pages. Another model answers the question from the pages and crops that you collected; "
    "you do not answer it yourself.",
    "Write every turn in this form: first your reasoning inside <think> and </think>, then exactly one action on a new line.",
    "- <search>query</search> finds pages. You then see a page as its lines of words, each with its box [x1, y1, x2, y2]; a word that is too small to read is "
    "shown as ?. Each search shows one page that you have not seen yet.",
    "- <bbox>[x1, y1, x2, y2]</bbox> cuts a part out of the page that you saw last. The numbers are pixels of the page as it was shown to you, from its top left "
    "corner, with x1 < x2 and y1 < y2. You then get the words of this part of the page, enlarged.",
    "- <search_complete>true</search_complete> ends your work, once the evidence is enough to answer.",
]
INVALID_ACTION = (
    "Your previous action is invalid. You must conduct reasoning inside <think> and </think> every time you get new information. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine using <search> query </search> and the user will return the search results. "
    "Whenever you retrieve an image, you may crop it for a clearer view using <bbox>[x1, y1, x2, y2]</bbox>. You can search as many times as you want. "
    "If you determine that no further external knowledge is needed, you must finish with <search_complete>true</search_complete>. "
    "Otherwise, continue with <search> or <bbox> actions until you are ready to finish. Please try again.\n"
)

LEGIBLE_PIXELS = 9
ALIGN = 28
MIN_PIXELS, MAX_PIXELS = 256 * 28 * 28, 512 * 28 * 28
# Small pages with few words are in a picture of this size.
WHOLE_PAGE = (0, 0, WIDTH, HEIGHT)


def message(role, content):
    return f"{START}{role}\n{content}{END}\n"


def prompt(question):
    """The environment's prompt in ChatML, with the opening of the first reply."""
    return message("system", "\n".join(SYSTEM_LINES)) + message("user", f"Question: {question}") + f"{START}assistant\n"


def bridge(observation):
    """The text between two replies, after the token that ends the first."""
    return f"\n{message('user', observation)}{START}assistant\n"


def page_text(page):
    """The observation of a search that shows the page."""
    lines = [f"[{', '.join(map(str, box))}] {text if legible else '?'}" for text, box, legible in page_lines(page)]
    return "\n".join([f"Page, {WIDTH} x {HEIGHT} pixels:", *lines])


def is_area(box):
    """True if the environment cuts a part out for the box, four whole numbers of at least 0."""
    left, top, right, bottom = box
    return min(right, WIDTH) > left and min(bottom, HEIGHT) > top


def fit(width, height):
    """The size at which a picture of that many native pixels is shown."""

    def scaled(size, pixels):
        factor = math.sqrt(pixels / (size[0] * size[1]))
        return math.trunc(size[0] * factor), math.trunc(size[1] * factor)

    size = (width, height)
    if size[0] * size[1] > MAX_PIXELS:
        size = scaled(size, MAX_PIXELS)
    if size[0] * size[1] < MIN_PIXELS:
        size = scaled(size, MIN_PIXELS)
    return tuple(max(1, math.floor(side / ALIGN + 0.5)) * ALIGN for side in size)


def crop_words(page, box):
    """([(text or None if it is too small, box)], size) of the crop; the box is one for which `is_area` holds."""
    left, top, right, bottom = (SCALE * min(side, most) for side, most in zip(box, (WIDTH, HEIGHT) * 2, strict=True))
    width, height = fit(right - left, bottom - top)
    x, y = Fraction(width, right - left), Fraction(height, bottom - top)
    words = []
    for text, word, _ in page_lines(page):
        a, b, c, d = (SCALE * side for side in word)
        if not (left <= (a + c) / 2 < right and top <= (b + d) / 2 < bottom):
            continue
        corners = [math.floor((a - left) * x), math.floor((b - top) * y), math.ceil((c - left) * x), math.ceil((d - top) * y)]
        shown = tuple(min(max(0, corner), side) for corner, side in zip(corners, (width, height) * 2, strict=True))
        words.append((text if (d - b) * y >= LEGIBLE_PIXELS else None, shown))
    return words, (width, height)


def crop_text(page, box):
    """The observation of a box."""
    words, (width, height) = crop_words(page, box)
    lines = [f"[{', '.join(map(str, shown))}] {text or '?'}" for text, shown in words] or ["(no words)"]
    return "\n".join([f"Crop, {width} x {height} pixels:", *lines])
