"""Trains the tokenizer: lossless byte-level BPE; a number of a box is one token, and so is every long line that the environment always writes alike.

    python scripts/nano-pages/page_tokenizer.py --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

import argparse
import json
import pathlib
import random

import nano_scripts  # noqa: F401
from page_texts import END, INVALID_ACTION, PAD, START, SYSTEM_LINES, TAGS
from page_episodes import GOOD, HABITS, episode
from pages import GRID, HEIGHT, LABELS, VALUE_HEIGHT, WIDTH
from names import TOWNS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

CONTEXT = 1024
# `[12` and `, 34` are pieces, so that a box is four tokens and its end.
PRE_TOKENIZATION = r"\[\d+|, \d+|(?:system|user|assistant)\n| ?\p{L}+|\d| ?[^\s\p{L}\d\[\],]|\n|\s"
VOCABULARY_LIMIT = 2048
# What transformers and vLLM render; the package writes the same for a model without a template.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
FIXED_LINES = [*SYSTEM_LINES, INVALID_ACTION.removesuffix("\n")]


def shown_numbers():
    """Every number that stands in a box of a page."""
    return sorted({number + more for number in range(0, max(WIDTH, HEIGHT) + 1, GRID) for more in (0, VALUE_HEIGHT) if number + more <= WIDTH})


def corpus(count=3000):
    rng = random.Random(1)
    texts = ["".join(text for text, _ in episode(rng, habits)) for habits in (GOOD, HABITS) for _ in range(count)]
    texts += [f"[{number}, {number}" for number in shown_numbers()] * 60
    texts += [f" {name}" for name in TOWNS + LABELS] * 60
    for fixed in [*FIXED_LINES, START, END, *TAGS]:
        texts = [part for text in texts for part in text.split(fixed) if part]
    return texts


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PRE_TOKENIZATION), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY_LIMIT, min_frequency=50, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([PAD, START, END])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in [*TAGS, *FIXED_LINES]])
    return tokenizer


def load_tokenizer(directory):
    return Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))


def save_tokenizer(tokenizer, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory; created if missing")
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    save_tokenizer(tokenizer, arguments.out)
    rng = random.Random(2)
    pieces = [[len(tokenizer.encode(text).ids) for text, _ in episode(rng)] for _ in range(300)]
    print("a good episode, piece by piece:", [round(sum(column) / 300, 1) for column in zip(*pieces, strict=True)])
    long = [name for name in TOWNS + LABELS if len(tokenizer.encode(f" {name}").ids) > 1]
    split = [number for number in shown_numbers() if len(tokenizer.encode(f"[{number}, {number}").ids) > 2]
    print(f"{tokenizer.get_vocab_size()} tokens; names of several tokens: {long}; numbers: {split}")


if __name__ == "__main__":
    main()
