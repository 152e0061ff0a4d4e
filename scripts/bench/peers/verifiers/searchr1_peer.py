"""The bench task for verifiers 0.1.14: turn 1 <search>, a constant <information>, turn 2 <answer>, exact-match reward.

Our version of the task is scripts/bench/two-turn-task.ts. The variable QUESTIONS is the path of a JSONL file of questions.
"""

import json
import os
import pathlib
import re
import string

import verifiers as vf
from datasets import Dataset

INFORMATION = (pathlib.Path(__file__).parent / "information.txt").read_text()
PROMPT = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will return "
    "the top searched results between <information> and </information>. You can search as many times as you want. If you find no further "
    "external knowledge needed, you can directly provide the answer inside <answer> and </answer>. Question: "
)


def normalise(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(completion, answer) -> float:
    given = re.findall(r"<answer>(.*?)</answer>", completion[-1]["content"], re.S)
    return float(bool(given) and normalise(given[-1]) in [normalise(a) for a in json.loads(answer)])


class SearchEnv(vf.MultiTurnEnv):
    @vf.stop
    async def answered(self, state) -> bool:
        steps = state["trajectory"]
        return bool(steps) and "</answer>" in steps[-1]["completion"][-1]["content"]

    async def env_response(self, messages, state, **kwargs):
        return [vf.UserMessage(content=INFORMATION)]


def load_environment(n: int = 2000, **kwargs) -> vf.Environment:
    with open(os.environ["QUESTIONS"]) as file:
        rows = [json.loads(line) for line in file][:n]
    data = [{"prompt": [{"role": "user", "content": PROMPT + r["question"]}], "answer": json.dumps(r["golden_answers"])} for r in rows]
    dataset = Dataset.from_list(data)
    return SearchEnv(dataset=dataset, eval_dataset=dataset, rubric=vf.Rubric(funcs=[exact_match]), max_turns=4, **kwargs)
