"""The pages that the nano vision-language model looks at: 4 x 4 cells, a number in each, seven of them on coloured squares. Needs only python3.

A page has 256 x 256 pixels and is shown at half its size, where its numbers are 5 pixels high: too small for the built-in reader (`legible_px` 9). A crop of
one cell is shown at full size, with a number that is 10 pixels high and can be read. So only a crop of the right cell answers a question.
"""

from dataclasses import dataclass

CELLS = 4
# Pixels of a cell: on the page, and on the page as it is shown.
CELL, SHOWN_CELL = 64, 32
PAGE, SHOWN_PAGE = CELLS * CELL, CELLS * SHOWN_CELL
COLOURS = {
    "red": (215, 35, 35),
    "green": (35, 150, 60),
    "blue": (45, 65, 215),
    "yellow": (238, 215, 40),
    "purple": (135, 45, 165),
    "orange": (242, 140, 25),
    "black": (25, 25, 25),
    "cyan": (35, 195, 215),
}
NAMES = list(COLOURS)
COLOURED = 7
ADJECTIVES = "quiet brave early gentle hollow lucky modest narrow proud rapid sturdy tidy".split()
ANIMALS = "otter badger heron lizard marten newt owl pigeon rabbit salmon toad weasel".split()
TITLES = [f"{adjective} {animal}" for adjective in ADJECTIVES for animal in ANIMALS]
# Pixels of paper around a square, and the greatest difference between a square's colour and its name's.
MARGIN, JITTER = 4, 12
# Places in the palette, which the squares' colours follow.
PAPER, INK = 0, 1
PALETTE = [(250, 250, 250), (60, 60, 60)]
# Darker squares have numbers in the paper's colour.
DARK = 120
# Rows of three pixels, each an octal digit.
GLYPHS = dict(zip("0123456789", "75557 26227 71747 71717 55711 74717 74757 71111 75757 75717".split(), strict=True))
GLYPHS |= dict(zip("abcdefghijklm", "25755 65656 34443 65556 74647 74644 34553 55755 72227 11152 55655 44447 57755".split(), strict=True))
GLYPHS |= dict(zip("nopqrstuvwxyz", "65555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 55222 71247".split(), strict=True))
GLYPH_WIDTH, GLYPH_HEIGHT = 3, 5
# Pixels of a glyph's pixel: in numbers, and in titles, which are too small to read.
NUMBER_SCALE, TITLE_SCALE = 2, 1


@dataclass(frozen=True)
class Page:
    title: str
    # For every cell in reading order: a colour's name or None, and a number of three digits.
    colours: tuple
    numbers: tuple
    # Red, green and blue of each place in `pixels`, which has a byte for every pixel.
    palette: tuple
    pixels: bytes
    # [text, left, top, right, bottom, line]
    words: tuple

    def cell_of(self, colour):
        return self.colours.index(colour)


class Sheet:
    def __init__(self):
        self.pixels = bytearray(PAGE * PAGE)
        self.words = []

    def fill(self, left, top, right, bottom, place):
        row = bytes([place]) * (right - left)
        for y in range(top, bottom):
            self.pixels[y * PAGE + left : y * PAGE + right] = row

    def write(self, text, left, top, scale, place, line):
        for i, letter in enumerate(text):
            for y, bits in enumerate(GLYPHS[letter]):
                for x in range(GLYPH_WIDTH):
                    if int(bits) >> (GLYPH_WIDTH - 1 - x) & 1:
                        across, down = left + (i * (GLYPH_WIDTH + 1) + x) * scale, top + y * scale
                        self.fill(across, down, across + scale, down + scale, place)
        self.words.append((text, left, top, left + text_width(text, scale), top + GLYPH_HEIGHT * scale, line))


def text_width(text, scale):
    return (len(text) * (GLYPH_WIDTH + 1) - 1) * scale


def draw_page(rng, title):
    """A page with random colours and numbers; `rng` is a random.Random."""
    coloured = dict(zip(rng.sample(range(CELLS * CELLS), COLOURED), rng.sample(NAMES, COLOURED), strict=True))
    numbers = rng.sample(range(100, 1000), CELLS * CELLS)
    sheet, palette = Sheet(), list(PALETTE)
    left = 2
    for word in title.split():
        sheet.write(word, left, 0, TITLE_SCALE, INK, 0)
        left += text_width(word, TITLE_SCALE) + 2 * (GLYPH_WIDTH + 1)
    for cell, number in enumerate(map(str, numbers)):
        row, column = divmod(cell, CELLS)
        ink = INK
        if cell in coloured:
            shade = tuple(max(0, min(255, value + rng.randint(-JITTER, JITTER))) for value in COLOURS[coloured[cell]])
            palette.append(shade)
            x, y = column * CELL + MARGIN, row * CELL + MARGIN
            sheet.fill(x, y, x + CELL - 2 * MARGIN, y + CELL - 2 * MARGIN, len(palette) - 1)
            ink = PAPER if sum(shade) < 3 * DARK else INK
        x = column * CELL + (CELL - text_width(number, NUMBER_SCALE)) // 2
        sheet.write(number, x, row * CELL + (CELL - GLYPH_HEIGHT * NUMBER_SCALE) // 2, NUMBER_SCALE, ink, cell + 1)
    colours = tuple(coloured.get(cell) for cell in range(CELLS * CELLS))
    return Page(title, colours, tuple(map(str, numbers)), tuple(palette), bytes(sheet.pixels), tuple(sheet.words))


def cell_box(cell):
    """The box of a cell on the shown page."""
    row, column = divmod(cell, CELLS)
    return [column * SHOWN_CELL, row * SHOWN_CELL, (column + 1) * SHOWN_CELL, (row + 1) * SHOWN_CELL]
