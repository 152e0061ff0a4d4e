"""
Recipes of tinker-cookbook as they are, against a server of the nano model: recipes.py URL MODEL FOLDER [negate]. `sl_loop` teaches the form of an answer, with digits
at random; `rl_loop` goes on from its checkpoint and must learn the digit that the question names; `guess_number` and DPO follow. Only what the recipes would get from
the hub is given here: rows, and the name of the renderer. `negate` turns the rewards of `rl_loop` around. Prints what was learned as JSON.
"""

import asyncio
import importlib.metadata
import json
import os
import random
import sys

os.environ["TINKER_TELEMETRY"] = "0"
URL, MODEL, FOLDER = sys.argv[1:4]
SUFFIX = " Provide a numerical answer without units, written inside \\boxed{}."

import datasets
from tinker_cookbook import model_info
from tinker_cookbook.recipes import rl_loop, sl_loop

numbers = random.Random(1)


def rows(count: int, chooses: bool) -> datasets.DatasetDict:
    made = []
    for _ in range(count):
        digit = numbers.randrange(10)
        question = f"Write {digit}."
        if chooses:
            answer = f"\\boxed{{{numbers.randrange(10)}}}"
            made.append({"messages": [{"role": "user", "content": question + SUFFIX}, {"role": "assistant", "content": answer}]})
        else:
            made.append({"question": question, "answer": f"#### {digit}"})
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(made)})


def load_dataset(name: str, *_: object, **__: object) -> datasets.DatasetDict:
    return {"HuggingFaceH4/no_robots": lambda: rows(2_000, True), "openai/gsm8k": lambda: rows(4_000, False)}[name]()


datasets.load_dataset = load_dataset
model_info.get_recommended_renderer_names = lambda _: ["role_colon"]


def metrics(folder: str, name: str) -> list[float]:
    with open(f"{folder}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [line[name] for line in lines if name in line]


def last_state(folder: str) -> dict[str, object]:
    with open(f"{folder}/checkpoints.jsonl") as file:
        return [json.loads(line) for line in file][-1]


found: dict[str, object] = {"version": importlib.metadata.version("tinker-cookbook")}

taught = f"{FOLDER}/sl"
sl_loop.main(sl_loop.Config(base_url=URL, log_path=taught, model_name=MODEL, batch_size=16, learning_rate=3e-3, lora_rank=16, max_steps=40, save_every=0))
found["nll"] = metrics(taught, "train_mean_nll")

rewarded = f"{FOLDER}/rl"
os.makedirs(rewarded)
with open(f"{rewarded}/checkpoints.jsonl", "w") as file:
    file.write(json.dumps({**last_state(taught), "batch": 0, "final": None}) + "\n")
if "negate" in sys.argv:
    reward_of = rl_loop.get_reward
    rl_loop.get_reward = lambda response, answer: 1.0 - reward_of(response, answer)
steps = int(os.environ.get("VF_STEPS", "40"))
rl_loop.main(
    rl_loop.Config(base_url=URL, log_path=rewarded, model_name=MODEL, batch_size=8, group_size=8, learning_rate=1e-3, lora_rank=16, max_tokens=12, max_steps=steps, save_every=0)
)
found["rewards"] = metrics(rewarded, "reward/total")
found["seconds"] = metrics(rewarded, "time/total")

if "all" in sys.argv:
    from tinker_cookbook.recipes.multiplayer_rl.guess_number import train as guess_number
    from tinker_cookbook.rl import train as rl_train

    played = f"{FOLDER}/guess"
    config = guess_number.CLIConfig(
        model_name=MODEL, renderer_name="role_colon", batch_size=2, group_size=4, max_steps=2, eval_every=0, max_tokens=24, log_path=played
    )
    os.environ["TINKER_BASE_URL"] = URL
    asyncio.run(rl_train.main(guess_number.build_config(config)))
    found["guess"] = metrics(played, "env/all/reward/total")

print(json.dumps(found))
