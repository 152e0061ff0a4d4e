"""Indexes a corpus with bm25s (numba) and searches it, on one thread; prints one JSON object.

    python bm25s_run.py corpus.jsonl questions.txt

Scoring "lucene" with k1 0.9 and b 0.4, English stop words, Porter stems, top 3. A latency is one question from text to hits, including tokenisation,
as in a search tool. All questions run once to warm up and three times for the record.
"""
import json
import os
import resource
import statistics
import sys
import time

os.environ.update(dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import bm25s  # noqa: E402
import Stemmer  # noqa: E402


def resident_mb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(corpus_path, questions_path):
    with open(corpus_path, encoding="utf-8") as corpus:
        passages = [json.loads(line)["contents"] for line in corpus]
    with open(questions_path, encoding="utf-8") as questions_file:
        questions = questions_file.read().splitlines()
    stemmer = Stemmer.Stemmer("porter")
    rows = len(passages)

    began, cpu_began = time.perf_counter(), time.process_time()
    tokens = bm25s.tokenize(passages, stopwords="en", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    index.index(tokens, show_progress=False)
    index_s, index_cpu_s, index_peak_mb = time.perf_counter() - began, time.process_time() - cpu_began, peak_mb()
    del tokens, passages
    index_mb = resident_mb()

    def search(question):
        words = bm25s.tokenize([question], stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
        return index.retrieve(words, k=3, show_progress=False, n_threads=1, backend_selection="numba")

    def latencies_ms():
        taken = []
        for question in questions:
            start = time.perf_counter()
            search(question)
            taken.append((time.perf_counter() - start) * 1000)
        return sorted(taken)

    latencies_ms()
    passes = [latencies_ms() for _ in range(3)]
    at = lambda share: statistics.median(taken[int(share * len(taken))] for taken in passes)  # noqa: E731
    report = {"rows": rows, "p50_ms": at(0.5), "p95_ms": at(0.95), "index_s": index_s, "index_cpu_s": index_cpu_s, "index_mb": index_mb, "peak_mb": index_peak_mb}
    print(json.dumps({"engine": f"bm25s {bm25s.__version__} numba", **report}))


main(*sys.argv[1:])
