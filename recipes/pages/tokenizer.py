"""Trains the tokenizer: lossless byte-level BPE; a number of a box is one token, and so are the two long fixed texts of the environment.

    python -m recipes.pages.tokenizer --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

import random

from ..trunk.byte_pairs import save_tokenizer, train_byte_pairs, without
from ..trunk.commands import tokenizer_parser
from ..trunk.names import TOWNS
from .episodes import GOOD, episode
from .pages import GRID, HEIGHT, LABEL_HEIGHT, LABELS, TOP, VALUE_HEIGHT, WIDTH
from .texts import END, INVALID_ACTION, PAD, START, SYSTEM_LINES, TAGS

CONTEXT = 4096
# Shares of the episodes in its training. They are its own, so that another choice of habits does not change the ids.
SHARES = {
    "page": {"search": 0.62, "other": 0.2, "complete": 0.1, "broken": 0.08},
    "crop": {"box": 0.3, "other": 0.25, "label": 0.12, "whole": 0.1, "complete": 0.13, "broken": 0.1},
    "end": {"complete": 0.72, "again": 0.18, "broken": 0.1},
}
# `[12`, also after a line break, `, 34` and `, 34]` are pieces, so that a box is four tokens. So is the first line of a page.
PRE_TOKENIZATION = r"(?:Page|Crop), \d+ x \d+ pixels:|\n?\[\d+|, \d+\]?|(?:system|user|assistant)\n| ?\p{L}+|\d| ?[^\s\p{L}\d\[\],]|\n|\s"
VOCABULARY_LIMIT = 2048
# The template that transformers and vLLM render; the package writes the same for a model without a template.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
FIXED_TEXTS = ["\n".join(SYSTEM_LINES), INVALID_ACTION.removesuffix("\n")]


def box_pieces():
    """The pieces of pages' boxes: lefts, after a line break too; tops, rights and bottoms."""
    lefts, tops = range(0, WIDTH + 1, GRID), range(TOP, HEIGHT, GRID)
    bottoms = [top + height for top in tops for height in (VALUE_HEIGHT, LABEL_HEIGHT)]
    ends = [f", {bottom}]" for bottom in [*bottoms, HEIGHT]]
    return [f"{start}[{left}" for left in lefts for start in ("", "\n")] + [f", {number}" for number in [*lefts, *tops]] + ends


def corpus(count=3000):
    rng = random.Random(1)
    texts = ["".join(text for text, _ in episode(rng, habits)) for habits in (GOOD, SHARES) for _ in range(count)]
    texts += box_pieces() * 60
    texts += [f" {name}" for name in TOWNS + LABELS] * 60
    return without(texts, [*FIXED_TEXTS, START, END, *TAGS])


def train_tokenizer():
    added = [*TAGS, *FIXED_TEXTS]
    return train_byte_pairs(corpus(), PRE_TOKENIZATION, size=VOCABULARY_LIMIT, min_frequency=50, special=[PAD, START, END], added=added)


def main():
    parser = tokenizer_parser(__doc__)
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    save_tokenizer(tokenizer, arguments.out, end=END, pad=PAD, context=CONTEXT, chat_template=CHAT_TEMPLATE)
    rng = random.Random(2)
    pieces = [[len(tokenizer.encode(text).ids) for text, _ in episode(rng)] for _ in range(300)]
    print("a good episode, piece by piece:", [round(sum(column) / 300, 1) for column in zip(*pieces, strict=True)])
    several = [text for text in [f" {name}" for name in TOWNS + LABELS] + box_pieces() if len(tokenizer.encode(text).ids) > 1]
    print(f"{tokenizer.get_vocab_size()} tokens; names and numbers of several tokens: {several}")


if __name__ == "__main__":
    main()
