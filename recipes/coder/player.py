"""Samples replies of a nano coder in plain torch, and scores them."""

import collections
import statistics

import torch

from ..trunk.sampler import Sampler
from .judge import between, judge, read_grade, read_inputs, read_program
from .texts import INPUTS, critique, propose, solve_function, solve_input, solve_output
from .tokenizer import END, prompt_text

LONGEST_REPLY = 128


def task_prompt(task):
    if task["kind"] == "code_f":
        shown = INPUTS // 2
        return solve_function(list(zip(task["inputs"], task["outputs"], strict=True))[:shown], task["message"])
    return solve_output(task["code"], task["input"]) if task["kind"] == "code_o" else solve_input(task["code"], task["output"])


class Player:
    def __init__(self, config, tokenizer):
        self.config = config
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id(END)
        self.sampled = 0

    def sample(self, weights, prompts, generator, temperature=1.0):
        """[(prompt ids, reply ids, reply text)]"""
        if not prompts:
            return []
        encoded = [self.tokenizer.encode(prompt_text(prompt), add_special_tokens=False).ids for prompt in prompts]
        with torch.no_grad():
            sampler = Sampler(self.config, weights, len(prompts), encoded[0][:1], capacity=max(map(len, encoded)) + LONGEST_REPLY)
            rows, rest = list(range(len(prompts))), [ids[1:] for ids in encoded]
            turns = sampler.sample_turn(rows, rest, stop={self.end}, max_tokens=LONGEST_REPLY, temperature=temperature, generator=generator)
        replies = []
        for row, prompt in enumerate(encoded):
            ids = turns[row][0]
            self.sampled += len(ids)
            text = self.tokenizer.decode(ids[:-1] if ids[-1] == self.end else ids, skip_special_tokens=False)
            replies.append((prompt, ids, text))
        return replies

    def solve(self, weights, tasks, seed=777, temperature=1.0):
        """Shares of right replies: of all, by kind, by kind and length (from the tasks' ids), and of the format."""
        generator = torch.Generator().manual_seed(seed)
        scores = collections.defaultdict(list)
        replies = self.sample(weights, [task_prompt(task) for task in tasks], generator, temperature)
        for task, (_, _, text) in zip(tasks, replies, strict=True):
            formed, right = judge(task, text)
            for key in ("all", task["kind"], task["id"].rsplit("-", 1)[0]):
                scores[key].append(right)
            scores["format"].append(formed)
        return {key: round(statistics.mean(values), 3) for key, values in sorted(scores.items())}

    def propose(self, weights, codes, count=200, seed=778):
        """Shares of valid proposals of programs and of inputs (for `codes`), the programs' statements, the number of different ones; critiques' form and spread."""
        generator = torch.Generator().manual_seed(seed)
        programs = [read_program(text) for _, _, text in self.sample(weights, [propose(kind) for kind in "oi"] * (count // 2), generator)]
        valid = [program[0] for program in programs if program]
        replies = self.sample(weights, [propose("f", code) for code in codes], generator)
        inputs = [read_inputs(code, text) for code, (_, _, text) in zip(codes, replies, strict=True)]
        return {
            "valid": round(len(valid) / len(programs), 3),
            "statements": round(statistics.mean(code.count(";") for code in valid), 2) if valid else None,
            "distinct": round(len(set(valid)) / max(len(valid), 1), 3),
            "valid inputs": round(sum(map(bool, inputs)) / len(inputs), 3),
        }

    def criticise(self, weights, tasks, seed=779):
        """Shares of well-formed critiques of sampled thoughts, and their grades."""
        generator = torch.Generator().manual_seed(seed)
        replies = [text for _, _, text in self.sample(weights, [task_prompt(task) for task in tasks], generator)]
        thoughts = [thought for thought in (between(text, "think") for text in replies) if thought]
        grades = [read_grade(text) for _, _, text in self.sample(weights, [critique(thought) for thought in thoughts], generator)]
        formed = [grade for grade in grades if grade is not None]
        return {"formed": round(len(formed) / len(grades), 3), "grades": dict(sorted(collections.Counter(formed).items()))}
