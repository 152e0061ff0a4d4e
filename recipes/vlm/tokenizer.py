"""Trains the tokenizer: lossless byte-level BPE in which every word and every number of a box is one token, tags are ordinary added tokens.

    python -m recipes.vlm.tokenizer --out DIR

Another training gives other ids, so a tokenizer belongs to the weights trained with it.
"""

from ..trunk.byte_pairs import check_lossless, save_tokenizer, train_byte_pairs, without
from ..trunk.commands import tokenizer_parser
from .pages import ADJECTIVES, ANIMALS, NAMES, SHOWN_CELL
from .square_habits import THOUGHTS
from .texts import CORRECTIONS, END_OF_TURN, IMAGE_PAD, PAD, SPECIAL_TOKENS, SYSTEM, TAGS, VIDEO_PAD, VISION_END, VISION_START, question

CONTEXT = 2048
# Qwen2's, except for numbers: up to three digits in one piece, with the space before them.
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
    return without(texts, TAGS) * 20


def train_tokenizer():
    return train_byte_pairs(corpus(), PRE_TOKENIZATION, size=VOCABULARY_LIMIT, min_frequency=2, special=SPECIAL_TOKENS, added=TAGS)


def save_with_template(tokenizer, directory):
    settings = {
        "chat_template": CHAT_TEMPLATE,
        "additional_special_tokens": SPECIAL_TOKENS[3:],
        "extra_special_tokens": {
            "image_token": IMAGE_PAD,
            "video_token": VIDEO_PAD,
            "vision_bos_token": VISION_START,
            "vision_eos_token": VISION_END,
        },
    }
    save_tokenizer(tokenizer, directory, end=END_OF_TURN, pad=PAD, context=CONTEXT, **settings)
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def main():
    parser = tokenizer_parser(__doc__)
    arguments = parser.parse_args()
    tokenizer = train_tokenizer()
    check_lossless(tokenizer)
    save_with_template(tokenizer, arguments.out)
    longest = max(len(tokenizer.encode(text).ids) for text in CORRECTIONS)
    print(f"{tokenizer.get_vocab_size()} tokens; system prompt {len(tokenizer.encode(SYSTEM).ids)}, longest correction {longest}")
    for text in (question("red", "quiet otter"), *THOUGHTS, "[64, 32, 96, 64]"):
        print(tokenizer.encode(text).tokens)


if __name__ == "__main__":
    main()
