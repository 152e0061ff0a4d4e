"""Writes test/golden/engine/tokenizer.json: transformers' results for awkward strings, ids and messages with the tokenizers of the two nano models.

python test/golden/producers/engine_tokenizer.py (any Python with transformers 5)
"""

import importlib.metadata
import json
import pathlib
import random

from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ["test/models/nano-base", "models/nano-base"]
TEMPLATE = (ROOT / "test/tokenizer/chatml.jinja").read_text()

TEXTS = [
    "a",
    " ",
    "Hello, world!",
    "It's we're I'LL they'd",
    "  leading and trailing  ",
    "tabs\tand\t\tmore\n\n\nlines\r\n\r\nend\n",
    "spaces      before word",
    "\n \n  \n   x",
    "x \n",
    "12345678901234567890 3.14159 1,000,000",
    "café naïve Ångström",
    "cafe\u0301 (combining)",
    "日本語のテキスト 中文 한국어",
    "Русский текст العربية עברית हिन्दी ไทย",
    "😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪",
    "\ufeffbyte order mark",
    "zero\u200bwidth\u200djoiner\u2060",
    "nbsp\u00a0here\u2003em\u3000ideographic",
    "line\u2028separator\u2029paragraph\u0085next",
    "control \x00 \x01 \x1b[0m \x7f",
    "\ufffd replacement \uffff \U0010ffff",
    "<search>who wrote it?</search>",
    "text<search> q </search>text</search",
    "<information>Doc 1(Title: \"A\") b</information>\n<think>so</think>\n<answer>x</answer>",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_end|><|im_end|><|endoftext|>",
    "<|im_end| ><|im_en<|im_end|>d|>",
    "<SEARCH></Search><search",
    "Ġthe Ċ ĉ é",
    "a" * 300,
    " " * 130 + "x",
    "!?" * 60,
    "def f(x):\n    return {'a': [1, 2, {\"b\": None}]}  # comment\n",
    "ﬁ ligature ① ½ ² ªº ǅ",
]

CHATS = [
    {"messages": [{"role": "user", "content": "What is it?"}]},
    {"messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi\n"}]},
    {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes "}, {"role": "user", "content": "And?"}],
        "add_generation_prompt": True,
    },
    {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True, "variables": {"enable_thinking": False}},
    {"messages": [{"role": "user", "content": "Go on"}, {"role": "assistant", "content": "It was a  "}], "continue_final_message": True},
    {"messages": [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "Is it yes"}], "continue_final_message": True},
    {
        "messages": [{"role": "user", "content": "Search é <b>\"x\"</b>"}, {"role": "assistant", "content": "", "tool_calls": [{"name": "search", "arguments": {"query": "é & <x>", "k": 3}}]}, {"role": "tool", "content": "found"}],
        "add_generation_prompt": True,
        "variables": {"tools": [{"type": "function", "function": {"name": "search", "description": "Finds <things> & 'more'", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}}]},
    },
]


def rows_of_ids(tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    draw = random.Random(7)
    size = len(tokenizer)
    # Single bytes come first in the vocabulary, and sequences of them are mostly invalid UTF-8. Added tokens come last.
    ranges = [(0, 256), (0, size), (size - 16, size)]
    return [[draw.randrange(*ranges[i % 3]) for _ in range(draw.randrange(1, 12))] for i in range(60)]


def model(path: str) -> dict:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ROOT / path)
    return {
        "path": path,
        "encoded": [tokenizer.encode(text, add_special_tokens=True) for text in TEXTS],
        "decoded": [{"ids": ids, **{name: tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False) for name, skip in (("skipped", True), ("kept", False))}} for ids in rows_of_ids(tokenizer)],
        "spellings": [tokenizer.convert_ids_to_tokens(i) for i in range(0, len(tokenizer), 7)],
    }


def rendered() -> list[dict]:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ROOT / MODELS[0])
    chats = []
    for chat in CHATS:
        options = {key: chat.get(key, False) for key in ("add_generation_prompt", "continue_final_message")}
        text = tokenizer.apply_chat_template(chat["messages"], chat_template=TEMPLATE, tokenize=False, **options, **chat.get("variables", {}))
        chats.append({"messages": chat["messages"], "variables": chat.get("variables", {}), **options, "text": text})
    return chats


def main() -> None:
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "tokenizers", "jinja2")}
    golden = {"producer": "test/golden/producers/engine_tokenizer.py", **versions, "texts": TEXTS, "models": [model(path) for path in MODELS], "chats": rendered()}
    target = ROOT / "test/golden/engine/tokenizer.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"{target.relative_to(ROOT)}: {len(TEXTS)} texts, {len(golden['chats'])} chats")


if __name__ == "__main__":
    main()
