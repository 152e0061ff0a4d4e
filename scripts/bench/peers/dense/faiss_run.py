"""A run of FAISS and numpy for dense.ts: reads passages.f32, queries.f32 and settings.json in FOLDER and prints the figures of dense-run.ts, and `brute`.

python faiss_run.py FOLDER
"""

import json
import pathlib
import resource
import statistics
import sys
import time

import faiss
import numpy as np

folder = pathlib.Path(sys.argv[1])
settings = json.loads((folder / "settings.json").read_text())
dim = settings["dim"]
passages = np.fromfile(folder / "passages.f32", dtype=np.float32).reshape(-1, dim)
queries = np.fromfile(folder / "queries.f32", dtype=np.float32).reshape(-1, dim)


def searched(index):
    index.search(queries[:1], 10)
    times, ids = [], []
    for query in queries:
        at = time.perf_counter()
        _, found = index.search(query[None], 10)
        times.append((time.perf_counter() - at) * 1000)
        ids.append(found[0].tolist())
    return {"ids": ids, "p50Ms": statistics.median(times)}


flat = faiss.IndexFlatIP(dim)
flat.add(passages)
exact = searched(flat)

at = time.perf_counter()
quantizer = faiss.IndexFlatIP(dim)
ivf = faiss.IndexIVFPQ(quantizer, dim, settings["partitions"], settings["sub_vectors"], 8, faiss.METRIC_INNER_PRODUCT)
# LanceDB takes as few without a warning.
ivf.cp.min_points_per_centroid = ivf.pq.cp.min_points_per_centroid = 1
# Refines as LanceDB does: `refine` times as many by their codes, the best of them by their exact product.
refined = faiss.IndexRefineFlat(ivf)
refined.k_factor = settings["refine"]
refined.train(passages)
refined.add(passages)
build = time.perf_counter() - at
ivf.nprobe = settings["nprobes"]
approximate = searched(refined)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

# In double precision, so that it is the judge. Equal products in the order of the passages.
products = queries.astype(np.float64) @ passages.astype(np.float64).T
brute = np.argsort(-products, axis=1, kind="stable")[:, :10].tolist()
print(json.dumps({"exact": exact, "ivfPq": approximate, "buildS": build, "peakMb": peak, "brute": brute}))
