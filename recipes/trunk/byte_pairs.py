"""Lossless byte-level BPE, the tokenizers of all nano models: trains from texts, writes, reads and checks them."""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers


def without(texts, markers):
    """The texts cut at the markers, which are tokens of their own and are not trained on."""
    for marker in markers:
        texts = [part for text in texts for part in text.split(marker) if part]
    return texts


def train_byte_pairs(texts, pre_tokenization, *, size, min_frequency, special, added):
    """A tokenizer of at most `size` tokens, then `special` tokens and `added` ordinary ones; `pre_tokenization` is a pattern of pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pre_tokenization), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    return tokenizer


def load_tokenizer(directory):
    return Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))


def save_tokenizer(tokenizer, directory, *, end, pad, context, **settings):
    """Writes tokenizer.json and tokenizer_config.json; `settings` are added to the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    whole = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "pad_token": pad,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        **settings,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


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
