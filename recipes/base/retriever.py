"""BM25 over the documents of a world, in place of the package's retriever during pre-training and probes. Standard library only.

It has the same formula and parameters (Lucene's: k1 0.9, b 0.4, stop words, ties by document number), but no stemming. For queries of the
world's own words both rank alike.
"""

import math
import re

K1 = 0.9
B = 0.4
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with".split()
)


def terms(text):
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


class Retriever:
    def __init__(self, documents):
        self.documents = documents
        self.postings = {}
        lengths = []
        for i, entry in enumerate(documents):
            words = terms(f"{entry.town}\n{entry.text}")
            lengths.append(len(words))
            for word in set(words):
                self.postings.setdefault(word, []).append((i, words.count(word)))
        average = sum(lengths) / max(1, len(lengths))
        self.norms = [K1 * (1 - B + B * length / average) for length in lengths]

    def search(self, query, topk):
        """The best documents, best first; [] if no word of the query occurs."""
        scores = {}
        for word in dict.fromkeys(terms(query)):
            postings = self.postings.get(word, ())
            weight = math.log(1 + (len(self.documents) - len(postings) + 0.5) / (len(postings) + 0.5))
            for i, count in postings:
                scores[i] = scores.get(i, 0.0) + weight * count / (count + self.norms[i])
        ranked = sorted(scores, key=lambda i: (-round(scores[i], 6), i))
        return [self.documents[i] for i in ranked[:topk]]
