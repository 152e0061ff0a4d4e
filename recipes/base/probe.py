"""Measures single skills of a base, and its reward in free play.

    python -m recipes.base.probe models/nano-base [--protocol search-o1] [--seed 7] [--json]

Uses the 240 held-out questions of the committed world. "Forced" probes supply the first turn (a search for `RELATION of TOWN`), so that
they measure only reading; they are greedy unless "sampled".
"""

import json
import random

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import model_parser
from ..trunk.model import load_model
from ..trunk.names import TOWNS, UNSEEN_OBJECT_ENDINGS, UNSEEN_TOWN_ENDINGS, invent_names
from ..trunk.sampler import Sampler
from .habits import SEARCHING
from .protocols import PROTOCOLS, add_protocol_option
from .retriever import Retriever
from .rollout import Player, summarize
from .world import EVALUATION_SEED, RELATIONS, Question, World, document, held_out_questions, split_towns


class Probe:
    """`count` held-out questions of the world of `seed`."""

    def __init__(self, config, weights, tokenizer, protocol, *, seed=EVALUATION_SEED, count=240):
        self.parts = (config, weights, tokenizer, protocol)
        self.protocol = protocol
        self.world = World(seed)
        self.retriever = Retriever(self.world.documents)
        self.questions = held_out_questions(self.world, split_towns()[1])[:count]
        self.random = random.Random(1)

    def search(self, query, topk, _question):
        return self.retriever.search(query, topk)

    def reward(self, search=None, *, questions=None, topk=3, temperature=0.0, forced=True, prompt_head=None):
        player = Player(*self.parts, search or self.search, topk=topk, prompt_head=prompt_head)
        first_turn = self.good_turn if forced else None
        generator = torch.Generator().manual_seed(3)
        rollouts = player.play(questions or self.questions, temperature=temperature, generator=generator, first_turn=first_turn)
        return summarize(rollouts)["reward"]

    def good_turn(self, question):
        return self.protocol.search_turn(RELATIONS[question.relation].query.format(town=question.town), SEARCHING[0])

    def shuffled(self, query, topk, question):
        found = self.search(query, topk, question)
        self.random.shuffle(found)
        return found

    def same_relation(self, _query, topk, question):
        towns = self.random.sample([town for town in TOWNS if town != question.town], topk - 1)
        found = [document(town, question.relation, self.world.facts[town, question.relation]) for town in [question.town, *towns]]
        self.random.shuffle(found)
        return found

    def unseen(self, *, objects, count=120):
        """Questions about towns that are in no pool, and a search that finds their facts."""
        towns = invent_names(count // len(RELATIONS), 99, UNSEEN_TOWN_ENDINGS)
        invented = invent_names(200, 123, UNSEEN_OBJECT_ENDINGS)
        entries = [
            document(town, relation, self.random.choice(invented if objects else RELATIONS[relation].objects))
            for town in towns
            for relation in RELATIONS
        ]
        retriever = Retriever(entries)
        questions = [Question("", e.town, e.relation, RELATIONS[e.relation].questions[0].format(town=e.town), e.object) for e in entries]
        return questions, lambda query, topk, _: retriever.search(query, topk)

    def skills(self):
        known, search_known = self.unseen(objects=False)
        unseen, search_unseen = self.unseen(objects=True)
        return {
            "forced": self.reward(),
            "forced, sampled": self.reward(temperature=1.0),
            **{f"forced, top-k {k}": self.reward(topk=k) for k in (1, 2, 4, 5)},
            "forced, shuffled": self.reward(self.shuffled),
            "forced, same relation": self.reward(self.same_relation),
            "forced, unseen towns": self.reward(search_known, questions=known),
            "forced, unseen towns and objects": self.reward(search_unseen, questions=unseen),
            "forced, empty retriever": self.reward(lambda *_: []),
            "forced, short prompt": self.reward(prompt_head=self.protocol.short_head),
        }

    def earns(self, draws=2):
        """Summary of free play: greedy, and sampled with `draws` rollouts per question."""
        player = Player(*self.parts, self.search)
        generator = torch.Generator().manual_seed(0)
        return {
            "greedy": summarize(player.play(self.questions, temperature=0)),
            "sampled": summarize(player.play(self.questions * draws, generator=generator)),
        }

    def query_is_exact(self):
        """Share of questions whose greedy query, after a forced thought, is the good one."""
        player = Player(*self.parts, self.search)
        thought = player.encode(self.protocol.open_search(SEARCHING[0]))
        tails = [player.encode(self.protocol.prompt_tail(question.text)) + thought for question in self.questions]
        with torch.no_grad():
            sampler = Sampler(player.config, player.weights, len(tails), player.prefix)
            turns = sampler.sample_turn(
                list(range(len(tails))), tails, stop={player.close_search, player.end_of_turn}, max_tokens=16, temperature=0, generator=None
            )
        wanted = [RELATIONS[question.relation].query.format(town=question.town) for question in self.questions]
        queries = [player.decode(turns[i][0]).removesuffix(self.protocol.search_close).strip() for i in range(len(tails))]
        return round(sum(q == w for q, w in zip(queries, wanted, strict=True)) / len(wanted), 3)


def main():
    parser = model_parser(__doc__)
    add_protocol_option(parser)
    parser.add_argument("--seed", type=int, default=EVALUATION_SEED, help="seed of the world (default: %(default)s, the committed one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config, weights = load_model(arguments.model)
    probe = Probe(config, weights, load_tokenizer(arguments.model), PROTOCOLS[arguments.protocol], seed=arguments.seed)
    results = {**probe.earns(draws=4), "query exact": probe.query_is_exact(), **probe.skills()}
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
