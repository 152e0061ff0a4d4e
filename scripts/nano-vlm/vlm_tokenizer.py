"""Trains the tokenizer: lossless byte-level BPE in which every word and every number of a box is one token, tags are ordinary added tokens.

    python scripts/nano-vlm/vlm_tokenizer.py --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

import argparse
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import nano_scripts  # noqa: F401
from pages import ADJECTIVES, ANIMALS, NAMES, SHOWN_CELL
from square_habits import THOUGHTS
from texts import CORRECTIONS, END_OF_TURN, PAD, SPECIAL_TOKENS, SYSTEM, TAGS, question
from tokenizer import check_lossless

CONTEXT = 2048
# Qwen2's, but for numbers: up to three digits in one piece, with the space before them.
PRE_TOKENIZATION = r" ?\p{N}{1,3}|[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
VOCABULARY_LIMIT = 2048
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' or part.type == 'image_url' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif part.type == 'text' %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def corpus():
    numbers = [SHOWN_CELL * i for i in range(5)]
    words = [f"{space}{word}" for word in [*ADJECTIVES, *ANIMALS, *NAMES, *map(str, numbers), "none"] for space in ("", " ")]
    words += [*("[]?.,:"), "system", "user", "assistant", "true"]
    texts = [SYSTEM, question("red", "quiet otter"), *THOUGHTS, *CORRECTIONS, *words]
    for tag in TAGS:
        texts = [part for text in texts for part in text.split(tag) if part]
    return texts * 20


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PRE_TOKENIZATION), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY_LIMIT, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return tokenizer


def load_tokenizer(directory):
    return Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))


def save_tokenizer(tokenizer, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TURN,
        "pad_token": PAD,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
        "additional_special_tokens": SPECIAL_TOKENS[3:],
        "extra_special_tokens": {
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
        },
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory; created if missing")
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    check_lossless(tokenizer)
    save_tokenizer(tokenizer, arguments.out)
    longest = max(len(tokenizer.encode(text).ids) for text in CORRECTIONS)
    print(f"{tokenizer.get_vocab_size()} tokens; system prompt {len(tokenizer.encode(SYSTEM).ids)}, longest correction {longest}")
    for text in (question("red", "quiet otter"), *THOUGHTS, "[64, 32, 96, 64]"):
        print(tokenizer.encode(text).tokens)


if __name__ == "__main__":
    main()
