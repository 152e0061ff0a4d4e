"""Trains the tokenizer: lossless byte-level BPE, single digits, statements of few tokens, tags as ordinary added tokens, a short chat template.

    python -m recipes.coder.tokenizer --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

import random

from ..trunk.byte_pairs import save_tokenizer, train_byte_pairs, without
from ..trunk.commands import tokenizer_parser
from .episodes import EPISODES, draw_episode
from .texts import TAGS

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
    """The chat template's text for one message of a user."""
    return f"{START}{content}\n"


def corpus(count=12_000):
    rng = random.Random(1)
    texts = [text for _ in range(count) for text in draw_episode(rng, only_good=False)]
    for episode in EPISODES.values():
        texts += [text for _ in range(500) for text in episode(rng, True, frozenset())]
    return without(texts, TAGS)


def train_tokenizer():
    return train_byte_pairs(corpus(), PRE_TOKENIZATION, size=VOCABULARY_LIMIT, min_frequency=20, special=[PAD, START, END], added=TAGS)


def main():
    parser = tokenizer_parser(__doc__)
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    save_tokenizer(tokenizer, arguments.out, end=END, pad=PAD, context=CONTEXT, chat_template=CHAT_TEMPLATE)
    rng = random.Random(2)
    for name, episode in EPISODES.items():
        rows = [episode(rng, False, frozenset()) for _ in range(300)]
        prompts, replies = ([len(tokenizer.encode(text).ids) for text in column] for column in zip(*rows, strict=True))
        print(f"{name}: prompts {sum(prompts) / 300 + 2:.1f} tokens, replies {sum(replies) / 300 + 1:.1f}, at most {max(prompts) + 2} and {max(replies) + 1}")
    print(f"{tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
