"""The text of a Search-R1 episode, as in environments/search-r1: prompt, observation, corrective message, action, reward.

Contains only what a tiny model needs. The package is the reference, and test/scripts/nano/world.test.ts compares the two. Standard library only.
"""

import re
import string

TAGS = ["<think>", "</think>", "<search>", "</search>", "<information>", "</information>", "<answer>", "</answer>"]
END_OF_TURN = "<|im_end|>"
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", END_OF_TURN]

# Everything before the question; the question follows after a space, then one line break.
PROMPT_HEAD = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will return "
    "the top searched results between <information> and </information>. You can search as many times as your want. If you find no "
    "further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without detailed "
    "illustrations. For example, <answer> Beijing </answer>. Question:"
)
CORRECTIVE_MESSAGE = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. "
    "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n"
)
ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
ARTICLE = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def prompt_tail(question):
    """The text after PROMPT_HEAD."""
    return f" {question}\n"


def observation(documents):
    """The text that a search appends. A document's title is its town; without documents the block is empty."""
    passages = "\n".join(f"Doc {i}(Title: {entry.town}) {entry.text}" for i, entry in enumerate(documents, 1))
    return f"\n\n<information>{passages}</information>\n\n"


def keep(sampled):
    """Cuts after the first `</search>`, else after the first `</answer>`, else keeps all."""
    for close in ("</search>", "</answer>"):
        at = sampled.find(close)
        if at != -1:
            return sampled[: at + len(close)]
    return sampled


def parse_action(text):
    """("search" or "answer" or None, its content)."""
    match = ACTION.search(text)
    return (match[1], match[2].strip()) if match else (None, "")


def normalize(answer):
    return " ".join(ARTICLE.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def is_exact_match(answer, gold):
    return answer is not None and normalize(answer) == normalize(gold)
