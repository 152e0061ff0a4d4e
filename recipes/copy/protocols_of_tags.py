"""The protocols of pre-training: Search-R1's, random tags, and native tool calls with random tools. Standard library only.

A protocol writes the prompt, a search, an answer, the environment's observation, and a turn that leaves its form open.
"""

import json

from ..base.search_r1 import SearchR1
from .scenes import filler, words
from .texts import TASK_END, TASK_HEAD, TASK_MIDDLE
from .words import invent_word

USER, ASSISTANT, END = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>"
NOTES_TOOL, NOTES_TEXT, NOTES_PARAMETER = "find_note", "Finds notes that contain words of a query.", "query"
NOTHING_TEXT = "No note contains these words."


NUMBERED = "numbered"
# The styles of shown passages: as in search-r1, only their text, under their title, as JSON.
STYLES = (NUMBERED, "text", "titled", "json")


def listed(facts, style=NUMBERED, first=1):
    write = {
        NUMBERED: lambda i, fact: f"Doc {i}(Title: {fact.title}) {fact.text}",
        "text": lambda i, fact: fact.text,
        "titled": lambda i, fact: f"{fact.title}: {fact.text}",
        "json": lambda i, fact: json.dumps({"title": fact.title, "text": fact.text}, ensure_ascii=False),
    }[style]
    return "\n".join(write(i, fact) for i, fact in enumerate(facts, first))


def draw_style(rng):
    return rng.choices(STYLES, (0.6, 0.16, 0.12, 0.12))[0]


class SearchR1Tags:
    """One assistant turn, with the package's own prompt."""

    def __init__(self, rng):
        self.rng = rng

    def prompt(self, question):
        return f"{USER}{SearchR1.prompt_head} {question}\n{END}\n{ASSISTANT}"

    def search(self, query):
        return f"<search> {query} </search>"

    def open_search(self, query):
        return f"<search> {query}"

    def answer(self, restated, answer):
        thought = f"<think> {restated} </think>\n" if restated else ""
        return f"{thought}<answer> {answer} </answer>"

    def again(self, restated, query):
        return f"<think> {restated} </think>\n<search> {query} </search>"

    def shown(self, facts):
        return f"\n\n<information>{listed(facts)}</information>\n\n"

    def shown_nothing(self):
        return self.shown([])

    def corrected(self):
        return SearchR1.corrective_message


class RandomTags:
    """One assistant turn, with tags and a prompt that no other episode has."""

    def __init__(self, rng):
        self.rng = rng
        self.find, self.reply = (usual if rng.random() < 0.3 else invent_word(rng) for usual in ("search", "answer"))
        self.show = "information" if rng.random() < 0.3 else invent_word(rng)
        self.space = rng.choice((" ", " ", ""))
        self.style = draw_style(rng)
        self.gap = rng.choice(("\n\n", "\n", ""))
        self.hints = rng.random() < 0.7

    def prompt(self, question):
        rng, space = self.rng, self.space
        said = lambda low, high: words(rng, low, high)  # noqa: E731
        hint = lambda word: word if self.hints else said(1, 1)  # noqa: E731
        parts = [
            filler(rng) if rng.random() < 0.5 else "",
            f"{said(1, 4)} {hint('search')} {said(0, 1)}",
            f"<{self.find}>{space}{rng.choice(('query', 'words', said(1, 1)))}{space}</{self.find}>",
            f"{said(0, 3)} <{self.show}> {said(0, 1)} </{self.show}>" if rng.random() < 0.7 else said(0, 2),
            f". {said(1, 3)} {hint('answer')}",
            f"<{self.reply}>{space}{rng.choice(('your answer', 'answer', said(1, 1)))}{space}</{self.reply}>.",
            rng.choice(("Question: ", "", f"{said(1, 1)}: ")) + question,
        ]
        return f"{USER}{' '.join(part for part in parts if part).replace(' .', '.')}{rng.choice((chr(10), ''))}{END}\n{ASSISTANT}"

    def search(self, query):
        return f"<{self.find}>{self.space}{query}{self.space}</{self.find}>"

    def open_search(self, query):
        return f"<{self.find}>{self.space}{query}"

    def answer(self, restated, answer):
        before = f"{restated}\n" if restated else ""
        return f"{before}<{self.reply}>{self.space}{answer}{self.space}</{self.reply}>"

    def again(self, restated, query):
        return f"{restated}\n{self.search(query)}"

    def shown(self, facts):
        return f"{self.gap}<{self.show}>{listed(facts, self.style)}</{self.show}>{self.gap}"

    def shown_nothing(self):
        return self.shown([])

    def corrected(self):
        return f"\n{filler(self.rng)}\n"


class NativeTools:
    """Turns of a chat, in the model's chat template; the tool's name, its argument and the tags of the answer are random, sometimes those of `vf-init --tools`."""

    def __init__(self, rng):
        self.rng = rng
        self.template = template = rng.random() < 0.35
        self.name = NOTES_TOOL if template or rng.random() < 0.1 else "_".join(invent_word(rng) for _ in range(rng.randint(1, 2)))
        self.text = NOTES_TEXT if template else filler(rng)
        self.parameter = NOTES_PARAMETER if template or rng.random() < 0.3 else invent_word(rng)
        self.reply = "answer" if template or rng.random() < 0.5 else invent_word(rng)
        self.task = template or rng.random() < 0.4
        self.style = NUMBERED if template else draw_style(rng)
        self.first = rng.randint(1, 60) if rng.random() < 0.5 else 1

    def call(self, value):
        return f'<tool_call>\n{{"name": "{self.name}", "arguments": {{"{self.parameter}": "{value}"}}}}\n</tool_call>'

    def system(self):
        reply = f"<{self.reply}> your answer </{self.reply}>"
        if self.task:
            return f"{TASK_HEAD}{self.name}{TASK_MIDDLE}{reply}{TASK_END}"
        return f"{filler(self.rng)} {words(self.rng, 1, 4)} {reply}{self.rng.choice(('.', ' ' + filler(self.rng), TASK_END))}"

    def prompt(self, question):
        tools = f"\n<tools>\n{self.text}\n{self.call('')}\n</tools>"
        return f"<|im_start|>system\n{self.system()}{tools}{END}\n{USER}{question}{END}\n{ASSISTANT}"

    def search(self, query):
        return f"{self.call(query)}{END}"

    def open_search(self, query):
        return f"{query}{END}"

    def answer(self, restated, answer):
        before = f"{restated} " if restated else ""
        return f"{before}<{self.reply}> {answer} </{self.reply}>{END}"

    def again(self, restated, query):
        return f"{restated}\n{self.call(query)}{END}"

    def reply_with(self, text):
        return f"\n{USER}<tool_response>\n{text}\n</tool_response>{END}\n{ASSISTANT}"

    def shown(self, facts):
        return self.reply_with(listed(facts, self.style, self.first))

    def shown_nothing(self):
        return self.reply_with(NOTHING_TEXT if self.template else filler(self.rng))

    def corrected(self):
        return None


def draw_protocol(rng, shares=(0.4, 0.25, 0.35)):
    return rng.choices((SearchR1Tags, RandomTags, NativeTools), shares)[0](rng)
