"""The protocol of environments/search-o1 with its refiner `builtin`: prompt, observation, cut, action. Standard library only.

Without the notes for a repeated query and for the limit of searches, which the base never meets. The instruction is Search-o1's (MIT, see NOTICE).
"""

import re

from .protocol import Protocol
from .retriever import terms

SEARCH_OPEN = "<|begin_search_query|>"
QUERY = re.compile(r"<\|begin_search_query\|>(.*?)<\|end_search_query\|>", re.DOTALL)
BOXED = re.compile(r"\\boxed\{(.*)\}")
NOTHING_FOUND = "No helpful information found."
MOST_SENTENCES = 3


class SearchO1(Protocol):
    name = "search-o1"
    markers = [
        SEARCH_OPEN,
        "<|end_search_query|>",
        "<|begin_search_result|>",
        "<|end_search_result|>",
        "\\boxed{",
        "}",
    ]
    search_close = "<|end_search_query|>"
    answer_close = "}"
    prompt_head = (
        "You are a reasoning assistant with the ability to perform web searches to help you answer the user's question accurately. "
        "You have special tools:\n\n"
        "- To perform a search: write <|begin_search_query|> your query here <|end_search_query|>.\n"
        "Then, the system will search and analyze relevant web pages, then provide you with helpful information in the format "
        "<|begin_search_result|> ...search results... <|end_search_result|>.\n\n"
        "You can repeat the search process multiple times if necessary. The maximum number of search attempts is limited to 5.\n\n"
        "Once you have all the information you need, continue your reasoning.\n\n"
        "Example:\n"
        'Question: "Who got the first Nobel Prize in Physics?"\n'
        "Assistant thinking steps:\n"
        "- I need to find out who was awarded the first Nobel Prize in Physics.\n\n"
        "Assistant:\n"
        "<|begin_search_query|>first Nobel Prize in Physics winner<|end_search_query|>\n\n"
        "(System returns processed information from relevant web pages)\n\n"
        "Assistant continues reasoning with the new information...\n\n"
        "Remember:\n"
        "- Use <|begin_search_query|> to request a web search and end with <|end_search_query|>.\n"
        "- When done searching, continue your reasoning.\n\n"
        "Please answer the following question. You should think step by step to solve it.\n\n"
        "Provide your final answer in the format \\boxed{YOUR_ANSWER}.\n\n"
        "Question:\n"
    )
    short_head = "Question:\n"
    corrective_message = None
    fixed_texts = [prompt_head, NOTHING_FOUND]
    habits = {"good": 0.25, "guess": 0.47, "junk": 0.15, "broken": 0.13}

    def prompt_tail(self, question):
        return f"{question}\n\n"

    def select(self, query, documents):
        """At most MOST_SENTENCES documents with the most words of the query, in the order found. A document is one
        sentence."""
        wanted = set(terms(query))
        counts = [len(wanted & set(terms(f"{entry.town} {entry.text}"))) for entry in documents]
        best = max(counts, default=0)
        return [entry for entry, count in zip(documents, counts, strict=True) if count == best > 0][:MOST_SENTENCES]

    def observation(self, documents):
        information = " ".join(entry.text for entry in documents) or NOTHING_FOUND
        return f"\n\n<|begin_search_result|>{information}<|end_search_result|>\n\n"

    def keep(self, sampled):
        """Returns the whole turn: sampling stops after a query."""
        return sampled

    def parse_action(self, text):
        """A query counts only at the end, an answer only without one."""
        queries = QUERY.findall(text) if text.rstrip().endswith(self.search_close) else []
        if queries and queries[-1].strip():
            return "search", queries[-1].strip()
        answers = BOXED.findall(text)
        return ("answer", answers[-1].strip()) if answers else (None, "")

    def open_search(self, thought):
        return f"{thought}\n\n{SEARCH_OPEN}"

    def open_answer(self, thought):
        return f"{thought}\n\n\\boxed{{"
