"""The protocol of environments/search-r1: prompt, observation, corrective message, cut, action. Standard library only."""

import re

from .protocol import Protocol

ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)


class SearchR1(Protocol):
    name = "search-r1"
    markers = ["<think>", "</think>", "<search>", "</search>", "<information>", "</information>", "<answer>", "</answer>"]
    search_close = "</search>"
    answer_close = "</answer>"
    # The question follows after a space, then one line break.
    prompt_head = (
        "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. "
        "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will return "
        "the top searched results between <information> and </information>. You can search as many times as your want. If you find no "
        "further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without detailed "
        "illustrations. For example, <answer> Beijing </answer>. Question:"
    )
    short_head = "Question:"
    corrective_message = (
        "\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. "
        "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n"
    )
    fixed_texts = [prompt_head, corrective_message]
    habits = {"good": 0.21, "guess": 0.50, "junk": 0.16, "broken": 0.13}

    def prompt_tail(self, question):
        return f" {question}\n"

    def select(self, query, documents):
        return documents

    def observation(self, documents):
        """A document's title is its town; without documents the block is empty."""
        passages = "\n".join(f"Doc {i}(Title: {entry.town}) {entry.text}" for i, entry in enumerate(documents, 1))
        return f"\n\n<information>{passages}</information>\n\n"

    def keep(self, sampled):
        """Cuts after the first `</search>`, else after the first `</answer>`, else keeps all."""
        for close in (self.search_close, self.answer_close):
            at = sampled.find(close)
            if at != -1:
                return sampled[: at + len(close)]
        return sampled

    def parse_action(self, text):
        match = ACTION.search(text)
        return (match[1], match[2].strip()) if match else (None, "")

    def open_search(self, thought):
        return f"<think> {thought}</think><search>"

    def open_answer(self, thought):
        return f"<think> {thought}</think><answer>"
