"""Random rows through the original scorers, as vectors: Search-R1's qa_em and qa_em_format, Search-o1's evaluate.py in every mode, UltraRAG's eight metrics.

python3 test/golden/producers/random_rows.py OUT [--rows 240] [--seeds 1,2,3] [--originals DIR]

OUT gets one file for each function, in the form that scripts/parity.ts plays. The originals are read at fixed commits from git repositories (clones or bare ones)
in DIR with the names Search-R1, Search-o1 and UltraRAG; without --originals they are cloned into ~/.cache/vf-search/originals. Needs rouge_score 0.1.2.
"""

import argparse
import collections
import contextlib
import io
import json
import pathlib
import platform
import random
import subprocess
import sys
import types

ORIGINALS = {
    "Search-R1": ("PeterGriffinJin/Search-R1", "a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06"),
    "Search-o1": ("sunnynexus/Search-o1", "6ced48f"),
    "UltraRAG": ("OpenBMB/UltraRAG", "015e838"),
}
WORDS = "the The a an AN Paris paris PARIS Eiffel tower rome x=5 5 3.14 1,998 True False yes no U.S. can't l'été naïve ß İstanbul ΣΑΣ ς ﬁ Ⅷ ½ 東京 図書館 한국 مصر हिन्दी e\u0301 😀 _under_ (B) B) B [A] `code` “quoted” ‘q’ ´ \u00a0nbsp\u00a0 \u3000 \u200b \u2028 \u0085 \x1c co-operate and/or running runs ran generalization".split(" ")
MARKS = [".", ",", "!", "?", ":", ";", "-", "…", "\n", "\t", " ", "  ", "\r\n", "\x1f", "\u2029", '"', "'", "$", "%", "\\", "{", "}", "(", ")", "<", ">", "*", "`", "```"]
TAGS = [f"<{slash}{name}>" for name in ("think", "search", "information", "answer") for slash in ("", "/")]
ANCHORS = ["<|im_start|>assistant", "<|im_start|>assistant\n", "<|im_start|>assistant \t", "<|im_start|>user\n", "<|im_end|>\n", "assistant"]
BOXES = ["\\boxed{", "\\text{", "}", "}}", "\\boxed", "\\boxed{}", "(", ")", "\n"]
HEADINGS = ["\n**Final Information**", "**Final Information**", "\n**Modified Reasoning Steps**", "```python", "```Python\n", "```", "\n", "\n\n"]
WEIGHTS = [
    {},
    {"structure_format_score": 0.2, "final_format_score": 0.1, "retrieval_score": 0},
    {"structure_format_score": 0.2, "final_format_score": 0.1, "retrieval_score": 0.1, "score": 1.0},
    {"final_format_score": -0.5, "score": 2.0},
]


class Rows:
    """Texts with what scorers stumble over, all from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def words(self, most=6):
        pieces = []
        for _ in range(self.random.randint(0, most)):
            pieces.append(self.random.choice(WORDS))
            pieces.append(self.random.choice(MARKS) if self.random.random() < 0.25 else " ")
        return "".join(pieces) if self.random.random() < 0.5 else "".join(pieces).strip()

    def golden(self):
        return [self.words(3) or self.random.choice(WORDS) for _ in range(self.random.randint(1, 4))]

    def prediction(self, golden):
        """A golden answer, more or less changed, or other words."""
        text = self.random.choice(golden)
        for change in range(self.random.randint(0, 3)):
            kind = self.random.randrange(7)
            text = [
                text.upper(),
                text.lower(),
                f"The {text}.",
                text.replace(" ", "-"),
                f"{self.words(3)} {text} {self.words(3)}",
                text[: self.random.randint(0, len(text))],
                " ".join(reversed(text.split())),
            ][kind]
        return self.words() if self.random.random() < 0.2 else text

    def soup(self, pieces, golden, most=14):
        """Any of the pieces between words."""
        kinds = [lambda: self.random.choice(pieces), lambda: self.random.choice(pieces), lambda: self.words(3), lambda: self.random.choice(golden)]
        return "".join(self.random.choice(kinds)() for _ in range(self.random.randint(0, most)))

    def episode(self, golden):
        """A sequence in upstream's format, often with one tag missing, doubled or moved."""
        parts = [self.random.choice(ANCHORS[:3])]
        for _ in range(self.random.randint(0, 2)):
            parts += ["<think>", self.words(), "</think>", "<search>", self.words(3), "</search>", "\n\n", "<information>", self.prediction(golden), "</information>", "\n\n"]
        parts += ["<think>", self.words(), "</think>", "\n", "<answer>", self.prediction(golden), "</answer>"]
        if self.random.random() < 0.4:
            at = self.random.randrange(len(parts))
            parts[at : at + 1] = self.random.choice([[], [parts[at]] * 2, [parts[at], self.words(2)], [self.random.choice(TAGS)]])
        example = "for example, <answer> Beijing </answer>. " if self.random.random() < 0.7 else ""
        return example + "".join(parts)


def original(folder, name, path, stubs=()):
    """The module of a file at the fixed commit, with stand-ins for what its functions do not need here."""
    repository, commit = ORIGINALS[name]
    source = subprocess.run(["git", "-C", folder / name, "show", f"{commit}:{path}"], capture_output=True, check=True).stdout.decode()
    for stub in stubs:
        sys.modules[stub] = types.SimpleNamespace(codegen_metrics=None, is_equiv=lambda *_: False, tabulate=None, UltraRAG_MCP_Server=Server)
    module = types.ModuleType(name)
    exec(compile(source, path, "exec"), module.__dict__)
    return module


class Server:
    """Registers nothing."""

    def __init__(self, *_, **__):
        self.logger = types.SimpleNamespace(info=print, warning=print)

    def tool(self, *_, **__):
        return lambda function: function

    def run(self, *_, **__):
        pass


def fetched(root):
    for name, (repository, _) in ORIGINALS.items():
        if not (root / name).exists():
            subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", f"https://github.com/{repository}", root / name], check=True)
    return root


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--rows", type=int, default=240, help="over all seeds together")
    options.add_argument("--seeds", default="1,2,3")
    options.add_argument("--originals", type=pathlib.Path)
    given = options.parse_args()
    folder = given.originals or fetched(pathlib.Path.home() / ".cache/vf-search/originals")
    em = original(folder, "Search-R1", "verl/utils/reward_score/qa_em.py")
    form = original(folder, "Search-R1", "verl/utils/reward_score/qa_em_format.py")
    o1 = original(folder, "Search-o1", "scripts/evaluate.py", ("lcb_runner", "lcb_runner.evaluation", "utils", "utils.math_equivalence"))
    ultra = original(folder, "UltraRAG", "servers/evaluation/src/evaluation.py", ("tabulate", "ultrarag", "ultrarag.server"))
    metrics = {
        "acc": ultra.accuracy_score,
        "em": ultra.exact_match_score,
        "stringem": ultra.string_em_score,
        "coverem": ultra.cover_exact_match_score,
        "f1": ultra.f1_score,
        "rouge-1": ultra.rouge1_score,
        "rouge-2": ultra.rouge2_score,
        "rouge-l": ultra.rougel_score,
    }
    cases = collections.defaultdict(list)

    def add(name, given, output):
        cases[name].append({"id": f"{name}-{len(cases[name]):05d}", "input": given, "output": output, "tags": ["random"]})

    def row(rows, index):
        golden = rows.golden()
        prediction = rows.prediction(golden)
        sequence = rows.episode(golden) if index % 2 else rows.soup(TAGS + ANCHORS, golden)
        add("normalize_answer", {"s": prediction}, em.normalize_answer(prediction))
        add("em_check", {"prediction": prediction, "golden_answers": golden}, em.em_check(prediction, golden))
        add("subem_check", {"prediction": prediction, "golden_answers": golden}, em.subem_check(prediction, golden))
        add("extract_solution", {"solution_str": sequence}, em.extract_solution(sequence))
        valid, reason = form.is_valid_sequence(sequence)
        add("is_valid_sequence", {"text": sequence}, {"valid": valid, "reason": reason})
        add("is_retrieval_correct", {"text": sequence, "golden_answers": golden}, form.is_retrieval_correct(sequence, golden))
        truth = {"target": golden}
        plain = {"format_score": 0.1, "score": 2.0} if index % 3 else {}
        add("compute_score_em_plain", {"solution_str": sequence, "ground_truth": truth, **plain}, em.compute_score_em(sequence, truth, **plain))
        add("compute_score_subem", {"solution_str": sequence, "ground_truth": truth, **plain}, em.compute_score_subem(sequence, truth, **plain))
        weights = WEIGHTS[index % len(WEIGHTS)]
        scored = {"solution_str": sequence, "ground_truth": truth, "weights": weights}
        add("compute_score_em_format", scored, form.compute_score_em(sequence, truth, **weights))
        mode = ("qa", "choose", "gen", "infogen", "codegen")[index % 5]
        output = rows.soup(HEADINGS, golden) if index % 5 > 2 else rows.soup(BOXES, golden, 8)
        if index % 5 <= 2 and index % 4:
            output += "\\boxed{" + rows.random.choice(["{}", "\\text{{{}}}", "({})", "{} "]).format(prediction) + "}"
        add("search_o1_extract_answer", {"output": output, "mode": mode}, o1.extract_answer(output, mode))
        label = golden if mode == "qa" else golden[0]
        found, answer = o1.evaluate_predictions(output, label, mode)
        found.pop("math_equal")
        add("search_o1_evaluate", {"output": output, "labeled_answer": label, "mode": mode}, {"metrics": found, "answer": answer})
        add("ultrarag_metrics", {"gt": golden, "pred": prediction}, {name: score(golden, prediction) for name, score in metrics.items()})

    seeds = [int(seed) for seed in given.seeds.split(",")]
    with contextlib.redirect_stdout(io.StringIO()):
        for number, seed in enumerate(seeds):
            rows = Rows(seed)
            for index in range(number, given.rows, len(seeds)):
                row(rows, index)
    given.out.mkdir(parents=True, exist_ok=True)
    stamp = {"producer": "test/golden/producers/random_rows.py", "upstream": {r: c for r, c in ORIGINALS.values()}, "python": platform.python_version()}
    for name, listed in cases.items():
        head = json.dumps({**stamp, "function": name, "seeds": seeds})[:-1]
        lines = ",\n".join(json.dumps(case) for case in listed)
        (given.out / f"{name}.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{given.rows} rows, {sum(map(len, cases.values()))} values of {len(cases)} functions in {given.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
