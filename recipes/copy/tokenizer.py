"""Trains the tokenizer: bytes, pairs of letters, single first letters of words, single digits, a few common words, the fixed sentences of prompts.

    python -m recipes.copy.tokenizer --out DIR

The first letter is a token with or without its space, and the rest of a word is split in the same way everywhere: in a question, in a passage,
in JSON. So a name is the same few tokens everywhere, except the first. Another training gives other ids: a tokenizer belongs to its weights.
"""

from ..trunk.byte_pairs import check_lossless, save_tokenizer, train_byte_pairs
from ..trunk.commands import tokenizer_parser
from .texts import CHAT_TEMPLATE, COMMON_WORDS, FIXED_TEXTS, TAGS
from .words import invent_name, invent_number, invent_word, WordRandom

END, PAD, START = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
CONTEXT = 2048
SIZE = 680


def pattern():
    words = "|".join(sorted(COMMON_WORDS, key=lambda word: (-len(word), word)))
    return rf"(?<=\p{{L}})\p{{L}}+| ?(?:{words})(?!\p{{L}})| ?\p{{L}}| ?\d| ?[^\s\p{{L}}\d]|\s"


def corpus(count=30_000):
    rng = WordRandom(1)
    texts = [f" {draw(rng)}" for _ in range(count) for draw in (invent_word, invent_name, invent_number)]
    texts += [text for word in COMMON_WORDS for text in (f" {word}", word)] * 400
    return texts


def train_tokenizer():
    return train_byte_pairs(corpus(), pattern(), size=SIZE, min_frequency=20, special=[PAD, START, END], added=[*TAGS, *FIXED_TEXTS])


def main():
    parser = tokenizer_parser(__doc__)
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    check_lossless(tokenizer)
    save_tokenizer(tokenizer, arguments.out, end=END, pad=PAD, context=CONTEXT, chat_template=CHAT_TEMPLATE)
    print(f"{tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
