"""Pre-training texts of the base: episodes with good and bad habits, and drills of single skills. Standard library only.

Each piece of text has an author: MODEL text is learned fully, ENVIRONMENT text a little, CONTEXT not at all. Every piece of MODEL text
ends a turn: the end-of-turn token is learned there but, as in real episodes, is not part of the following context.

Habits of a turn (a protocol gives their shares):
- good    thinks, searches for "RELATION of TOWN" (15 %: for the question itself), restates the document with the answer, answers
- guess   answers an object of the right relation without searching: right once in 40
- junk    searches for another town, for the relation only, or for "the towns", and answers from the results
- broken  leaves the marker open: the environment corrects it and the model tries again, or the episode ends
"""

from ..trunk.names import PERSON_ENDINGS, RIVER_ENDINGS, TOWN_ENDINGS, TOWNS, invent_name
from .world import RELATIONS, Question, document

CONTEXT, ENVIRONMENT, MODEL = 0, 1, 2
GOOD_ONLY = {"good": 1.0}
SEARCHING = ["I should search.", "I need to look this up."]
KNOWING = ["I know this.", "I can answer this."]
# 3, the environment's default, is the most frequent.
TOPK = [1, 2, 3, 3, 3, 4, 5]
MAX_SEARCHES = 2


class Teacher:
    """Draws episodes of a protocol about the current world (`enter`).

    `shuffled` and `same_relation` are the shares of good searches whose documents are in random order, or are facts of one relation about
    different towns. `fresh` is the share of episodes and drills with newly invented names.
    """

    def __init__(self, generator, protocol, *, shuffled=0.3, same_relation=0.3, fresh=0.0):
        self.generator = generator
        self.protocol = protocol
        self.shuffled = shuffled
        self.same_relation = same_relation
        self.fresh = fresh
        self.world = None
        self.retriever = None

    def enter(self, world, retriever):
        self.world = world
        self.retriever = retriever

    def episode(self, mix):
        """[(text, author)] of one episode; the first piece is the question."""
        draw = self.generator
        question, nearby = self._fresh_question() if draw.random() < self.fresh else (self._question(), None)
        pieces = [(self.protocol.prompt_tail(question.text), ENVIRONMENT)]
        for _ in range(MAX_SEARCHES + 1):
            habit = draw.choices(list(mix), list(mix.values()))[0]
            if habit == "good":
                return pieces + self._good(question, nearby)
            if habit == "guess":
                return pieces + self._guess(question)
            if habit == "junk":
                return pieces + self._junk(question, nearby)
            pieces.append((self._broken(question), MODEL))
            if self.protocol.corrective_message is None:
                return pieces
            pieces.append((self.protocol.corrective_message, ENVIRONMENT))
        return pieces[:-1]

    def _question(self):
        draw = self.generator
        town, relation = draw.choice(TOWNS), draw.choice(list(RELATIONS))
        return self.world.question(town, relation, draw.randrange(2), "")

    def _fresh_question(self):
        """A question about newly invented names, and the documents that a search for it finds."""
        documents = self._documents(self.generator.choice(TOPK), True)
        return self._ask(self.generator.choice(documents)), documents

    def _good(self, question, nearby):
        draw = self.generator
        query = question.text if draw.random() < 0.15 else RELATIONS[question.relation].query.format(town=question.town)
        gold = document(question.town, question.relation, question.gold)
        shown = nearby or self._shown(question, query, gold)
        return [*self._search(query, shown), (self._answer(gold), MODEL)]

    def _search(self, query, shown):
        protocol = self.protocol
        return [(protocol.search_turn(query, self.generator.choice(SEARCHING)), MODEL), (protocol.observation(shown), ENVIRONMENT)]

    def _answer(self, entry):
        """Restates the document, then answers, so that the model copies the object from the document's own wording."""
        return self.protocol.answer_turn(entry.object, entry.text)

    def _shown(self, question, query, gold):
        """The documents of a good search: those that the environment selects, or others around the gold one."""
        draw = self.generator
        topk = draw.choice(TOPK)
        found = self.retriever.search(query, topk)
        kind = draw.random()
        if kind < self.shuffled:
            draw.shuffle(found)
            return found
        if kind < self.shuffled + self.same_relation:
            towns = draw.sample([town for town in TOWNS if town != question.town], topk - 1)
            shown = [gold] + [document(town, question.relation, self.world.facts[town, question.relation]) for town in towns]
            draw.shuffle(shown)
            return shown
        return self.protocol.select(query, found)

    def _guess(self, question):
        draw = self.generator
        return [(self.protocol.answer_turn(draw.choice(RELATIONS[question.relation].objects), draw.choice(KNOWING)), MODEL)]

    def _junk(self, question, nearby):
        draw = self.generator
        relation = question.relation
        kind = draw.random()
        query = RELATIONS[relation].query.format(town=draw.choice(TOWNS)) if kind < 0.5 else f"the {relation}" if kind < 0.8 else "the towns"
        shown = self.protocol.select(query, self.retriever.search(query, draw.choice(TOPK)))
        pieces = self._search(query, shown)
        if draw.random() < 0.15:
            return pieces + self._good(question, nearby)
        related = [entry for entry in shown if entry.relation == relation]
        return pieces + ([(self._answer(related[0]), MODEL)] if related else self._guess(question))

    def _broken(self, question):
        draw = self.generator
        if draw.random() < 0.6:
            return f"{self.protocol.open_answer(draw.choice(KNOWING))} {draw.choice(RELATIONS[question.relation].objects)}"
        return f"{self.protocol.open_search(draw.choice(SEARCHING))} {question.relation}"

    def _thing(self, relation, fresh):
        draw = self.generator
        if fresh and (relation in ("mayor", "river") or draw.random() < 0.3):
            return invent_name(draw, RIVER_ENDINGS if relation == "river" else PERSON_ENDINGS)
        return draw.choice(RELATIONS[relation].objects)

    def _documents(self, count, fresh):
        """Random facts about a few towns and relations, so that both must be matched; fewer than `count` if two coincide."""
        draw = self.generator
        towns = [invent_name(draw, TOWN_ENDINGS) if fresh else draw.choice(TOWNS) for _ in range(draw.choice([1, 2, 3, 4, 5]))]
        relations = draw.sample(list(RELATIONS), draw.choice([1, 2, 3, 4]))
        pairs = dict.fromkeys((draw.choice(towns), draw.choice(relations)) for _ in range(count))
        return [document(town, relation, self._thing(relation, fresh)) for town, relation in pairs]

    def _ask(self, entry):
        text = self.generator.choice(RELATIONS[entry.relation].questions).format(town=entry.town)
        return Question("", entry.town, entry.relation, text, entry.object)

    def reading_drill(self):
        """Documents, then a question about each of them: several copies for the cost of one observation."""
        draw = self.generator
        documents = self._documents(draw.choice([2, 3, 4, 5, 6]), draw.random() < self.fresh)
        pieces = [(self.protocol.observation(documents), CONTEXT)]
        for entry in draw.sample(documents, len(documents)):
            pieces += [(self.protocol.prompt_tail(self._ask(entry).text), CONTEXT), (self._answer(entry), MODEL)]
        return pieces

    def asking_drill(self):
        """Questions, each followed by its query."""
        draw = self.generator
        fresh = draw.random() < self.fresh
        pieces = []
        for _ in range(6):
            (entry,) = self._documents(1, fresh)
            question = self._ask(entry)
            query = RELATIONS[entry.relation].query.format(town=entry.town)
            pieces += [(self.protocol.prompt_tail(question.text), CONTEXT), (self.protocol.search_turn(query, draw.choice(SEARCHING)), MODEL)]
        return pieces
