"""Trains the tokenizer: lossless byte-level BPE with Qwen2's pre-tokenisation and the protocol's markers as ordinary added tokens.

    python -m recipes.base.tokenizer --out models/nano-base [--protocol search-o1]

Every name of the pools is one token with its leading space; other names of the same syllables are a few tokens. Another training gives other
ids, so a tokenizer belongs to the weights trained with it.
"""

import random

from ..trunk.byte_pairs import check_lossless, save_tokenizer, train_byte_pairs, without
from ..trunk.commands import tokenizer_parser
from ..trunk.names import ANIMALS, GOODS, PEOPLE, PERSON_ENDINGS, RIVER_ENDINGS, RIVERS, TOWN_ENDINGS, TOWNS, invent_names
from .habits import GOOD_ONLY, Teacher
from .protocol import END_OF_TURN, SPECIAL_TOKENS
from .protocols import PROTOCOLS, add_protocol_option
from .retriever import Retriever
from .world import EVALUATION_SEED, World

# Qwen2's (tokenizer.json of Qwen2.5 and Qwen3).
PRE_TOKENIZATION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# More than the corpus can fill: training ends when every word is one token.
VOCABULARY_LIMIT = 2048
CONTEXT = 2048


def corpus(protocol, invented=400):
    """Good episodes, the fixed texts, every name many times, and some invented names for their syllables."""
    world = World(7, avoid=World(EVALUATION_SEED))
    teacher = Teacher(random.Random(0), protocol)
    teacher.enter(world, Retriever(world.documents))
    texts = ["".join(text for text, _ in teacher.episode(GOOD_ONLY)) for _ in range(3000)]
    texts += protocol.fixed_texts * 300
    texts += [f" {name}" for name in TOWNS + PEOPLE + RIVERS + GOODS + ANIMALS] * 200
    texts += [f" {name}" for name in invent_names(invented, 11, TOWN_ENDINGS + PERSON_ENDINGS + RIVER_ENDINGS)]
    return without(texts, protocol.markers)


def train_tokenizer(protocol, vocabulary_limit=VOCABULARY_LIMIT, min_frequency=2):
    size = vocabulary_limit - len(SPECIAL_TOKENS) - len(protocol.markers)
    return train_byte_pairs(corpus(protocol), PRE_TOKENIZATION, size=size, min_frequency=min_frequency, special=SPECIAL_TOKENS, added=protocol.markers)


def main():
    parser = tokenizer_parser(__doc__)
    add_protocol_option(parser)
    arguments = parser.parse_args()
    protocol = PROTOCOLS[arguments.protocol]
    tokenizer = train_tokenizer(protocol)
    check_lossless(tokenizer)
    save_tokenizer(tokenizer, arguments.out, end=END_OF_TURN, pad=SPECIAL_TOKENS[0], context=CONTEXT)

    def pieces(names):
        return sum(len(tokenizer.encode(f" {name}", add_special_tokens=False).ids) for name in names) / len(names)

    unseen = invent_names(300, 99, TOWN_ENDINGS)
    print(f"{tokenizer.get_vocab_size()} tokens; prompt head {len(tokenizer.encode(protocol.prompt_head).ids)}")
    for label, names in (("towns", TOWNS), ("people", PEOPLE), ("rivers", RIVERS), ("words", GOODS + ANIMALS), ("invented", unseen)):
        print(f"{label}: {pieces(names):.2f} tokens per name")


if __name__ == "__main__":
    main()
