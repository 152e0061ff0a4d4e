"""rl_loop of tinker-cookbook against a server of the nano model, with rewards by chance, so that every group trains: tinker_rl_loop.py URL MODEL FOLDER STEPS. Prints its times and prompts."""

import json
import os
import random
import sys

os.environ["TINKER_TELEMETRY"] = "0"
URL, MODEL, FOLDER, STEPS = sys.argv[1:5]

import datasets
import tinker
from tinker_cookbook import model_info
from tinker_cookbook.recipes import rl_loop

chance = random.Random(1)
prompts: list[list[int]] = []
sample = tinker.SamplingClient.sample


def recorded(self, prompt, *args, **options):
    prompts.append(prompt.to_ints())
    return sample(self, prompt, *args, **options)


tinker.SamplingClient.sample = recorded
rows = [{"question": f"Write {n}.", "answer": "#### 1"} for n in range(8 * int(STEPS))]
datasets.load_dataset = lambda *_, **__: datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)})
model_info.get_recommended_renderer_names = lambda _: ["role_colon"]
rl_loop.get_reward = lambda *_: chance.random()
rl_loop.main(
    rl_loop.Config(base_url=URL, log_path=FOLDER, model_name=MODEL, batch_size=8, group_size=8, lora_rank=16, max_tokens=64, save_every=0)
)
with open(f"{FOLDER}/metrics.jsonl") as file:
    seconds = [json.loads(line)["time/total"] for line in file]
print(json.dumps({"seconds": seconds, "prompts": prompts}))
