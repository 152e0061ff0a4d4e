"""Writes test/golden/comparison.json: paired statistics as scipy and statsmodels compute them.

    python3 -m venv /tmp/statistics && /tmp/statistics/bin/pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0
    /tmp/statistics/bin/python test/golden/producers/comparison.py

The cases are pairs of values by row, drawn from a fixed seed. `interval` is scipy.stats.bootstrap (BCa) over whole rows; `se` is its standard error, the unit
in which another seed's interval may differ. `exact` is statsmodels' mcnemar where a row has one pair, and elsewhere the share of all 2^rows exchanges of
rows that differ at least as much; `approximate` is mcnemar without continuity correction. `seeds` are values of runs by seed: t intervals of scipy.stats.ttest_*.
"""

import itertools
import json
import pathlib

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

RESAMPLES = 200_000
rng = np.random.default_rng(15)


def binary(rows: int, rollouts: int, first: float, second: float, shared: float) -> list:
    """Pairs whose values agree with a draw of the row in the share `shared` of the cases."""
    found = []
    for _ in range(rows):
        ease = rng.random()
        draw = lambda p: int((ease if rng.random() < shared else rng.random()) < p)
        found.append([[draw(first), draw(second)] for _ in range(rollouts)])
    return found


def graded(rows: int, most: int) -> list:
    """Rewards from 0 to 1 in tenths, with 1 to `most` pairs in a row."""
    found = []
    for _ in range(rows):
        level = rng.random()
        pair = lambda: [round(float(np.clip(level + shift + 0.2 * rng.normal(), 0, 1)), 1) for shift in (0, 0.05)]
        found.append([pair() for _ in range(rng.integers(1, most + 1))])
    return found


def skewed(rows: int) -> list:
    """Small differences, and a single large one, which a symmetric interval would misjudge."""
    return [[[0.1, round(0.1 + (0.9 if i == 0 else 0.1 * float(rng.random())), 2)]] for i in range(rows)]


def interval(rows: list) -> dict:
    sums = np.array([sum(b - a for a, b in row) for row in rows], dtype=float)
    counts = np.array([len(row) for row in rows], dtype=float)
    found = stats.bootstrap(
        (sums, counts),
        lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=2_000,
        method="BCa",
        rng=np.random.default_rng(0),
    )
    low, high = found.confidence_interval
    return {"value": sums.sum() / counts.sum(), "low": low, "high": high, "se": found.standard_error}


def tests(rows: list) -> dict:
    pairs = [pair for row in rows for pair in row]
    table = [[sum(a == x and b == y for a, b in pairs) for y in (1, 0)] for x in (1, 0)]
    lost, gained = table[0][1], table[1][0]
    totals = [sum(b - a for a, b in row) for row in rows]
    if all(len(row) == 1 for row in rows):
        exact = mcnemar(table, exact=True).pvalue
        approximate = mcnemar(table, exact=False, correction=False).pvalue
    else:
        moved = [t for t in totals if t != 0]
        sums = [abs(sum(signs)) for signs in itertools.product(*[(t, -t) for t in moved])]
        exact = np.mean([s >= abs(sum(moved)) for s in sums])
        approximate = stats.chi2.sf(sum(moved) ** 2 / sum(t * t for t in moved), 1)
    return {"gained": gained, "lost": lost, "exact": float(exact), "approximate": float(approximate)}


cases = {
    "40 rows, one rollout": binary(40, 1, 0.4, 0.6, 0.7),
    "200 rows, one rollout": binary(200, 1, 0.3, 0.35, 0.9),
    "14 rows, four rollouts": binary(14, 4, 0.35, 0.6, 0.8),
    "16 rows, eight rollouts, no difference": binary(16, 8, 0.5, 0.5, 0.6),
}
grades = {"30 rows, one to five rollouts, graded": graded(30, 5), "6 rows, one rollout, graded": graded(6, 1), "20 rows, one of which differs most": skewed(20)}


def seeds(name: str, first: list, second: list) -> dict:
    """Means over seeds, and their difference by pairs (of as many seeds) and by Welch's test."""

    def mean(values: list) -> dict:
        low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        return {"value": float(np.mean(values)), "low": float(low), "high": float(high)}

    def difference(found) -> dict:
        low, high = found.confidence_interval(0.95)
        return {"p": float(found.pvalue), "degrees": float(found.df), "low": float(low), "high": float(high)}

    return {
        "name": name,
        "first": first,
        "second": second,
        "means": [mean(first), mean(second)],
        "paired": difference(stats.ttest_rel(second, first)) if len(first) == len(second) else None,
        "welch": difference(stats.ttest_ind(second, first, equal_var=False)),
    }


def drawn(n: int, mean: float, spread: float) -> list:
    return [round(float(x), 4) for x in rng.normal(mean, spread, n)]


by_seed = [
    seeds("two seeds each", [0.31, 0.35], [0.52, 0.46]),
    seeds("three seeds each", drawn(3, 0.6, 0.05), drawn(3, 0.7, 0.02)),
    seeds("three and five seeds, of other spreads", drawn(3, 0.4, 0.2), drawn(5, 0.5, 0.01)),
    seeds("twelve seeds each, no difference", drawn(12, 0.5, 0.1), drawn(12, 0.5, 0.1)),
    seeds("two and forty seeds", drawn(2, 0.2, 0.05), drawn(40, 0.9, 0.05)),
]
student = [[t, df, float(2 * stats.t.sf(abs(t), df))] for t in (0, 0.3, 1, 2.5, -7, 40) for df in (1, 1.5, 2, 3.7, 9, 25.2, 1000)]
student_quantiles = [[p, df, float(stats.t.ppf(p, df))] for p in (0.5, 0.8, 0.975, 0.9995) for df in (1, 1.5, 2, 3.7, 9, 25.2, 1000)]
ps = [0.01, 0.04, 0.03, 0.005, 0.9]
golden = {
    "producer": {
        "script": "test/golden/producers/comparison.py",
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "statsmodels": statsmodels.__version__,
    },
    "cases": [
        *[{"name": name, "rows": rows, "interval": interval(rows), "test": tests(rows)} for name, rows in cases.items()],
        *[{"name": name, "rows": rows, "interval": interval(rows), "test": None} for name, rows in grades.items()],
    ],
    "holm": {"ps": ps, "adjusted": multipletests(ps, method="holm")[1].tolist()},
    "seeds": by_seed,
    "student": student,
    "student_quantiles": student_quantiles,
    "normal": [[z, float(stats.norm.cdf(z))] for z in (-8, -3.2, -1.96, -0.5, 0, 0.1, 1, 2.5, 2.9, 6)],
    "quantiles": [[p, float(stats.norm.ppf(p))] for p in (1e-9, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999)],
    "tails": [[x, float(stats.chi2.sf(x, 1))] for x in (0, 0.1, 1, 3.841, 7.9, 8.1, 50, 300)],
}
path = pathlib.Path(__file__).parents[3] / "test/golden/comparison.json"
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
print(f"{path}: {len(golden['cases'])} cases")
