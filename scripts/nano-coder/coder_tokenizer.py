"""Trains the tokenizer: lossless byte-level BPE, digits alone, statements of few tokens, tags as ordinary added tokens, a short chat template.

    python scripts/nano-coder/coder_tokenizer.py --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from episodes import EPISODES, draw_episode
from texts import TAGS

END, PAD, START = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
CONTEXT = 512
# A statement about slices is one piece, so it may become one token; a digit never joins its neighbours.
PRE_TOKENIZATION = r'def f\(a\):|return a|a=a\[[^;\'"<]*;?|\{"rationale": "|", "grade": |\d|[^\d;\s]+;?|;|\s'
VOCABULARY_LIMIT = 480
# A prompt is the only message: no role is written, and nothing opens the reply.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ message['content'] + '<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}"
)


def prompt_text(content):
    """What the chat template writes for one message of a user."""
    return f"{START}{content}\n"


def corpus(count=12_000):
    rng = random.Random(1)
    texts = [text for _ in range(count) for text in draw_episode(rng, only_good=False)]
    for episode in EPISODES.values():
        texts += [text for _ in range(500) for text in episode(rng, True, frozenset())]
    for tag in TAGS:
        texts = [part for text in texts for part in text.split(tag) if part]
    return texts


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PRE_TOKENIZATION), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY_LIMIT, min_frequency=20, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([PAD, START, END])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
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
    for name, episode in EPISODES.items():
        rows = [episode(rng, False, frozenset()) for _ in range(300)]
        prompts, replies = ([len(tokenizer.encode(text).ids) for text in column] for column in zip(*rows, strict=True))
        print(f"{name}: prompts {sum(prompts) / 300 + 2:.1f} tokens, replies {sum(replies) / 300 + 1:.1f}, at most {max(prompts) + 2} and {max(replies) + 1}")
    print(f"{tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
