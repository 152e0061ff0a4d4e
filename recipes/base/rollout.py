"""Plays questions of a world with the model, many at a time, by the rules of the real environment.

A turn stops after a search or at the end-of-turn token and is cut by `keep`. There are at most two searches and one more turn.
"""

from dataclasses import dataclass, field

import torch

from ..trunk.sampler import Sampler
from .habits import MAX_SEARCHES
from .protocol import END_OF_TURN, is_exact_match

TOPK = 3
# The environment's limit is 500 tokens. This model's turns take about 20, and much longer ones fail anyway.
MAX_TURN_TOKENS = 64


@dataclass
class Rollout:
    """`ids` follow the prompt head; `sampled` and `log_probs` are parallel to `ids`, false and 0 for text that the model did not write."""

    question: object
    ids: list = field(default_factory=list)
    sampled: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    query: str | None = None
    answer: str | None = None
    reward: float = 0.0
    searches: int = 0
    corrected: int = 0
    found_gold: bool = False

    def append(self, ids, log_probs=None):
        self.ids += ids
        self.sampled += [log_probs is not None] * len(ids)
        self.log_probs += log_probs or [0.0] * len(ids)


class Player:
    """A policy in the environment of a protocol. `search(query, topk, question)` returns documents."""

    def __init__(self, config, weights, tokenizer, protocol, search, *, topk=TOPK, prompt_head=None):
        self.config = config
        self.weights = weights
        self.tokenizer = tokenizer
        self.protocol = protocol
        self.search = search
        self.topk = topk
        self.prefix = self.encode(prompt_head or protocol.prompt_head)
        self.close_search = tokenizer.token_to_id(protocol.search_close)
        self.end_of_turn = tokenizer.token_to_id(END_OF_TURN)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    @torch.no_grad()
    def play(self, questions, *, temperature=1.0, generator=None, first_turn=None):
        """One rollout per question. `first_turn(question)` replaces the model's first turn."""
        rollouts = [Rollout(question) for question in questions]
        for rollout in rollouts:
            rollout.append(self.encode(self.protocol.prompt_tail(rollout.question.text)))
        sampler = Sampler(self.config, self.weights, len(rollouts), self.prefix)
        # Number of each rollout's tokens in the cache.
        fed = [0] * len(rollouts)
        active = list(range(len(rollouts)))
        for turn in range(MAX_SEARCHES + 1):
            if turn == 0 and first_turn:
                texts = {row: self._force(rollouts[row], first_turn) for row in active}
            else:
                texts = self._sample(sampler, rollouts, active, fed, temperature, generator)
            active = [row for row in active if self._answer(rollouts[row], texts[row], last=turn == MAX_SEARCHES)]
            if not active:
                break
        return rollouts

    def _force(self, rollout, first_turn):
        text = first_turn(rollout.question)
        rollout.append(self.encode(text))
        return text

    def _sample(self, sampler, rollouts, active, fed, temperature, generator):
        turns = sampler.sample_turn(
            active,
            [rollouts[row].ids[fed[row] :] for row in active],
            stop={self.close_search, self.end_of_turn},
            max_tokens=MAX_TURN_TOKENS,
            temperature=temperature,
            generator=generator,
        )
        texts = {}
        for row, (ids, log_probs) in turns.items():
            texts[row], count = self._cut(ids)
            before = len(rollouts[row].ids)
            rollouts[row].append(ids[:count], log_probs[:count])
            # Tokens after the cut are overwritten by the next chunk, or never read again.
            fed[row] = before + min(count, len(ids) - 1)
            sampler.lengths[row] = len(self.prefix) + fed[row]
        return texts

    def _cut(self, ids):
        """(kept text, number of its ids). Markers are single tokens, so a cut never splits a token."""
        text = self.decode(ids)
        kept = self.protocol.keep(text)
        if kept == text:
            return kept, len(ids) - (ids[-1] == self.end_of_turn)
        count = next(i for i in range(1, len(ids) + 1) if len(self.decode(ids[:i])) >= len(kept))
        return kept, count

    def _answer(self, rollout, text, *, last):
        """Appends the environment's answer; returns whether the episode continues."""
        action, content = self.protocol.parse_action(text)
        if action == "answer":
            rollout.answer = content
            rollout.reward = float(is_exact_match(content, rollout.question.gold))
            return False
        if last or (action is None and self.protocol.corrective_message is None):
            return False
        if action == "search":
            documents = self.search(content, self.topk, rollout.question)
            rollout.searches += 1
            rollout.query = content
            rollout.found_gold |= any(d.town == rollout.question.town and d.relation == rollout.question.relation for d in documents)
            rollout.append(self.encode(self.protocol.observation(self.protocol.select(content, documents))))
        else:
            rollout.corrected += 1
            rollout.append(self.encode(self.protocol.corrective_message))
        return True


def summarize(rollouts):
    def mean(measure):
        return round(sum(measure(rollout) for rollout in rollouts) / len(rollouts), 3)

    return {
        "reward": mean(lambda r: r.reward),
        "searched": mean(lambda r: r.searches > 0),
        "found": mean(lambda r: r.found_gold),
        "corrected": mean(lambda r: r.corrected > 0),
        "unanswered": mean(lambda r: r.answer is None),
        "sampled_tokens": mean(lambda r: sum(r.sampled)),
    }
