"""The scripts' view of an environment: the interface of search_r1.py and search_o1.py, and their shared parts. Standard library only.

A protocol contains only what a tiny model needs. The environment in the package is the reference, and test/recipes/base/protocols.test.ts
compares the two.
"""

import re
import string
from abc import ABC, abstractmethod

END_OF_TURN = "<|im_end|>"
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", END_OF_TURN]

ARTICLE = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


class Protocol(ABC):
    """The texts of an environment's episodes, and the shares of the habits that its base learns."""

    name: str
    # Ordinary added tokens.
    markers: list[str]
    # They end a search and an answer; a search also ends the turn.
    search_close: str
    answer_close: str
    # Everything before the question, and a short form of it.
    prompt_head: str
    short_head: str
    # The environment's reply to a turn without an action; None if such a turn ends the episode.
    corrective_message: str | None
    # The tokenizer learns their words.
    fixed_texts: list[str]
    habits: dict[str, float]

    @abstractmethod
    def prompt_tail(self, question):
        """The text after `prompt_head`."""

    @abstractmethod
    def select(self, query, documents):
        """The documents among those found that an observation shows."""

    @abstractmethod
    def observation(self, documents):
        """The text that a search appends."""

    @abstractmethod
    def keep(self, sampled):
        """The part of a sampled turn that the environment keeps."""

    @abstractmethod
    def parse_action(self, text):
        """("search" or "answer" or None, its content) of a kept turn."""

    @abstractmethod
    def open_search(self, thought):
        """A turn up to its query."""

    @abstractmethod
    def open_answer(self, thought):
        """A turn up to its answer."""

    def search_turn(self, query, thought):
        return f"{self.open_search(thought)} {query}{self.search_close}"

    def answer_turn(self, thing, thought):
        return f"{self.open_answer(thought)} {thing}{self.answer_close}"


def normalize(answer):
    return " ".join(ARTICLE.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def is_exact_match(answer, gold):
    return answer is not None and normalize(answer) == normalize(gold)
