"""Trains the tokenizer: lossless byte-level BPE with Qwen2's pre-tokenisation and the protocol's markers as ordinary added tokens.

    python scripts/nano/tokenizer.py --out models/nano-base [--protocol search-o1]

Every name of the pools is one token with its leading space; other names of the same syllables are a few tokens. Another training gives other
ids, so a tokenizer belongs to the weights trained with it.
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from habits import GOOD_ONLY, Teacher
from names import ANIMALS, GOODS, PEOPLE, PERSON_ENDINGS, RIVER_ENDINGS, RIVERS, TOWN_ENDINGS, TOWNS, invent_names
from protocol import END_OF_TURN, SPECIAL_TOKENS
from protocols import PROTOCOLS, add_protocol_option
from retriever import Retriever
from world import EVALUATION_SEED, World

# Qwen2's (tokenizer.json of Qwen2.5 and Qwen3).
PRE_TOKENIZATION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# More than the corpus can fill: training ends when every word is one token.
VOCABULARY_LIMIT = 2048


def corpus(protocol, invented=400):
    """Good episodes, the fixed texts, every name many times, and some invented names for their syllables."""
    world = World(7, avoid=World(EVALUATION_SEED))
    teacher = Teacher(random.Random(0), protocol)
    teacher.enter(world, Retriever(world.documents))
    texts = ["".join(text for text, _ in teacher.episode(GOOD_ONLY)) for _ in range(3000)]
    texts += protocol.fixed_texts * 300
    texts += [f" {name}" for name in TOWNS + PEOPLE + RIVERS + GOODS + ANIMALS] * 200
    texts += [f" {name}" for name in invent_names(invented, 11, TOWN_ENDINGS + PERSON_ENDINGS + RIVER_ENDINGS)]
    for marker in protocol.markers:
        texts = [part for text in texts for part in text.split(marker) if part]
    return texts


def train_tokenizer(protocol, vocabulary_limit=VOCABULARY_LIMIT, min_frequency=2):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZATION), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_limit - len(SPECIAL_TOKENS) - len(protocol.markers),
        min_frequency=min_frequency,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(protocol), trainer)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in protocol.markers])
    return tokenizer


def load_tokenizer(directory):
    return Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))


def save_tokenizer(tokenizer, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TURN,
        "pad_token": SPECIAL_TOKENS[0],
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def check_lossless(tokenizer, count=300):
    """Raises ValueError if encode and decode change a string."""
    generator = random.Random(3)
    texts = ["héllo <search>漢字🙂\n\n x</answer>  \t", "".join(map(chr, range(1, 0x500))), "a\r\n  b<think>", "x}<|begin_search_query|> \\boxed{{"]
    for _ in range(count):
        ranges = [(1, 0x80), (1, 0xD800), (0xE000, 0x110000)]
        texts.append("".join(chr(generator.randrange(*generator.choice(ranges))) for _ in range(40)))
    for text in texts:
        decoded = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
        if decoded != text:
            raise ValueError(f"The tokenizer is not lossless: {text!r} became {decoded!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory; created if missing")
    add_protocol_option(parser)
    arguments = parser.parse_args()
    protocol = PROTOCOLS[arguments.protocol]
    tokenizer = train_tokenizer(protocol)
    check_lossless(tokenizer)
    save_tokenizer(tokenizer, arguments.out)

    def pieces(names):
        return sum(len(tokenizer.encode(f" {name}", add_special_tokens=False).ids) for name in names) / len(names)

    unseen = invent_names(300, 99, TOWN_ENDINGS)
    print(f"{tokenizer.get_vocab_size()} tokens; prompt head {len(tokenizer.encode(protocol.prompt_head).ids)}")
    for label, names in (("towns", TOWNS), ("people", PEOPLE), ("rivers", RIVERS), ("words", GOODS + ANIMALS), ("invented", unseen)):
        print(f"{label}: {pieces(names):.2f} tokens per name")


if __name__ == "__main__":
    main()
