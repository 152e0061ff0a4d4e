"""Self-play as a probe: whether a base learns from its own proposals, with Python's answer as the only teacher. Plain torch.

    python -m recipes.coder.self_play packages/vf-search-models/models/nano-coder [--steps 60] [--seed 0] [--kinds oif] [--control frozen|negated]

A step: 16 proposals of each kind, every valid one solved 8 times; these solutions determine the proposer's reward and are the solver's own batch. Proposals of kind f give
inputs for a program of the buffer. The proposer gets -1 for an invalid proposal, else 1 - accuracy, and -0.5 if accuracy is 0 or 1 or the program was
there before. The solver gets 1, wrong -0.5, without the format -1. Advantages are (r - mean) / std over role and kind; one Adam step of a LoRA a batch.
Held-out programs are refused. Prints one JSON object a line.
"""

import collections
import json
import pathlib
import random
import statistics
import time

import torch

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import command_parser
from ..trunk.model import forward, init_lora, load_model, merge_lora
from ..trunk.training import pad
from .judge import judge, read_inputs, read_program
from .player import Player, task_prompt
from .tasks import held_out_rows, train_rows
from .texts import propose

LORA_SCALE = 2.0  # alpha 16 / rank 8
RANK = 8
GRADIENT_NORM = 1.0
BUFFER = 200  # number of newest programs for proposals of kind f


class SelfPlay:
    def __init__(self, arguments):
        self.arguments = arguments
        self.config, self.base = load_model(arguments.base)
        self.player = Player(self.config, load_tokenizer(arguments.base))
        self.lora = {name: tensor.requires_grad_() for name, tensor in init_lora(self.config, RANK, arguments.seed).items()}
        self.optimizer = torch.optim.Adam(self.lora.values(), lr=arguments.lr, betas=(0.9, 0.99))
        self.generator = torch.Generator().manual_seed(arguments.seed)
        self.rng = random.Random(arguments.seed)
        self.held_out = [task for task in held_out_rows() if task["kind"][-1] in arguments.kinds]
        self.forbidden = {task["code"] for task in held_out_rows()}
        self.buffer = [task["code"] for task in train_rows(held_out_rows()) if task["kind"] != "code_f"]
        self.seen = collections.Counter()

    def merged(self):
        with torch.no_grad():
            return merge_lora(self.base, self.lora, LORA_SCALE)

    def evaluate(self):
        return self.player.solve(self.merged(), self.held_out * self.arguments.draws)

    def read(self, kind, code, text):
        """A task, or None for an invalid proposal."""
        if kind == "f":
            found = read_inputs(code, text)
            return found and {"kind": "code_f", "code": code, "inputs": found[0], "outputs": found[1], "message": found[2]}
        found = read_program(text)
        return found and {"kind": f"code_{kind}", "code": found[0], "input": found[1], "output": found[2]}

    def propose(self, weights):
        """[(kind, prompt ids, reply ids, task or None)]"""
        kinds = [kind for kind in self.arguments.kinds for _ in range(self.arguments.proposals)]
        codes = [self.rng.choice(self.buffer[-BUFFER:]) if kind == "f" else None for kind in kinds]
        prompts = [propose(kind, code) for kind, code in zip(kinds, codes, strict=True)]
        replies = self.player.sample(self.base if self.arguments.control == "frozen" else weights, prompts, self.generator)
        return [(kind, prompt, ids, self.read(kind, code, text)) for kind, code, (prompt, ids, text) in zip(kinds, codes, replies, strict=True)]

    def proposer_reward(self, task, accuracy):
        if task is None:
            return -1.0
        is_repeated = task["kind"] != "code_f" and self.seen[task["code"]] > 0
        return -0.5 if accuracy in (0, 1) or is_repeated else 1 - accuracy

    def step(self):
        weights, samples = self.merged(), self.arguments.samples
        proposals = [each for each in self.propose(weights) if each[3] is None or each[3]["kind"] == "code_f" or each[3]["code"] not in self.forbidden]
        tasks = [task for *_, task in proposals if task is not None]
        replies = self.player.sample(weights, [task_prompt(task) for task in tasks for _ in range(samples)], self.generator)
        batch, solved, accuracies = [], iter(replies), []
        for kind, prompt, ids, task in proposals:
            accuracy = None
            if task is not None:
                own = [next(solved) for _ in range(samples)]
                verdicts = [judge(task, text) for *_, text in own]
                accuracy = statistics.mean(right for _, right in verdicts)
                accuracies.append((kind, accuracy))
                batch += [(f"solve {kind}", p, r, 1.0 if right else -0.5 if formed else -1.0) for (p, r, _), (formed, right) in zip(own, verdicts, strict=True)]
            if self.arguments.control != "frozen":
                batch.append((f"propose {kind}", prompt, ids, self.proposer_reward(task, accuracy)))
        values = self.describe(proposals, accuracies)
        programs = [task["code"] for task in tasks if task["kind"] != "code_f"]
        self.seen.update(programs)
        self.buffer += programs
        self.update(batch)
        return values

    def describe(self, proposals, accuracies):
        programs = [task["code"] for kind, *_, task in proposals if task is not None and kind != "f"]
        by_kind = {kind: [accuracy for k, accuracy in accuracies if k == kind] for kind in self.arguments.kinds}
        valid = [task is not None for kind, *_, task in proposals if kind != "f"]
        return {
            "valid": round(statistics.mean(valid), 3),
            "statements": round(statistics.mean(code.count(";") for code in programs), 2) if programs else None,
            "distinct": round(len(set(programs)) / max(len(programs), 1), 3),
            "seen": round(sum(self.seen[code] > 0 for code in programs) / max(len(programs), 1), 3),
            "learnability": {k: round(statistics.mean(1 - a if a > 0 else 0 for a in each), 3) for k, each in by_kind.items() if each},
            "tasks": {k: len(each) for k, each in by_kind.items()},
            "example": self.rng.choice(programs) if programs else None,
        }

    def update(self, batch):
        groups = collections.defaultdict(list)
        for group, *_, reward in batch:
            groups[group].append(reward)
        sign = -1 if self.arguments.control == "negated" else 1
        rows = []
        for group, prompt, reply, reward in batch:
            std = statistics.stdev(groups[group]) if len(groups[group]) > 1 else 0.0
            advantage = sign * (reward - statistics.mean(groups[group])) / (std + 1e-6)
            if advantage != 0:
                rows.append((prompt, reply, advantage))
        rows.sort(key=lambda row: len(row[0]) + len(row[1]))
        total = sum(len(reply) for _, _, reply, _ in batch)
        self.optimizer.zero_grad()
        for at in range(0, len(rows), 64):
            part = rows[at : at + 64]
            ids = pad([prompt + reply for prompt, reply, _ in part])
            advantages = pad([[0.0] * (len(prompt) - 1) + [advantage] * len(reply) for prompt, reply, advantage in part])
            where = advantages != 0
            logits = forward(self.config, merge_lora(self.base, self.lora, LORA_SCALE), ids[:, :-1], (), where)
            log_probs = logits.log_softmax(-1).gather(-1, ids[:, 1:][where][:, None])[:, 0]
            # Sampled from exactly these weights and used once, so the ratio is 1 and a clip never acts.
            (-(advantages[where] * log_probs).sum() / total).backward()
        torch.nn.utils.clip_grad_norm_(self.lora.values(), GRADIENT_NORM)
        self.optimizer.step()


def main():
    parser = command_parser(__doc__)
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kinds", default="oif")
    parser.add_argument("--proposals", type=int, default=16, help="of each kind and step (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=8, help="solutions of each valid proposal (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control", choices=["none", "frozen", "negated"], default="none")
    parser.add_argument("--evaluate-every", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1, help="replies to each held-out task (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run, cpu = SelfPlay(arguments), time.process_time()
    print(json.dumps({"step": 0, "held_out": run.evaluate()}), flush=True)
    for step in range(1, arguments.steps + 1):
        values = {"step": step, **run.step()}
        if step % arguments.evaluate_every == 0 or step == arguments.steps:
            values["held_out"] = run.evaluate()
        print(json.dumps({**values, "sampled": run.player.sampled, "cpu": round(time.process_time() - cpu)}), flush=True)


if __name__ == "__main__":
    main()
