"""
Recipes of tinker-cookbook as they are, against a server of the nano model: recipes.py URL MODEL FOLDER. `sl_loop` and DPO with a reference model must learn; `rl_loop`
and `guess_number`, at which so small a model earns nothing, must run. Given here is what the recipes would get from the hub, rows, and what they would know of the
model, its renderer. Prints what they logged as JSON.
"""

import asyncio
import importlib.metadata
import json
import os
import random
import sys

os.environ["TINKER_TELEMETRY"] = "0"
URL, MODEL, FOLDER = sys.argv[1:4]
os.environ["TINKER_BASE_URL"] = URL

import datasets
from tinker_cookbook import model_info
from tinker_cookbook.recipes import rl_loop, sl_loop
from tinker_cookbook.recipes.multiplayer_rl.guess_number import train as guess_number
from tinker_cookbook.recipes.preference.dpo import train as dpo
from tinker_cookbook.rl import train as rl_train

numbers = random.Random(1)
found: dict[str, object] = {"version": importlib.metadata.version("tinker-cookbook")}


def rows(made: list[dict[str, object]]) -> datasets.DatasetDict:
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(made), "test": datasets.Dataset.from_list(made[:8])})


def taught() -> datasets.DatasetDict:
    asked = [numbers.randrange(10) for _ in range(640)]
    return rows([{"messages": [{"role": "user", "content": f"Write {n}."}, {"role": "assistant", "content": f"It is {n}."}]} for n in asked])


def solved() -> datasets.DatasetDict:
    return rows([{"question": f"Write {n % 10}.", "answer": f"#### {n % 10}"} for n in range(64)])


def compared() -> datasets.DatasetDict:
    asked = [numbers.randrange(10) for _ in range(160)]
    start = [f"\n\nHuman: Write {n}.\n\nAssistant: " for n in asked]
    return rows([{"chosen": f"{each}The river is near.", "rejected": f"{each}Nobody knows that."} for each in start])


def load_dataset(name: str, *_: object, split: str | None = None, **__: object) -> object:
    made = {"HuggingFaceH4/no_robots": taught, "openai/gsm8k": solved, "Anthropic/hh-rlhf": compared}[name]()
    return made if split is None else made[split]


datasets.load_dataset = load_dataset
model_info.get_recommended_renderer_names = lambda _: ["role_colon"]


def logged(folder: str, name: str) -> list[float]:
    with open(f"{folder}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [line[name] for line in lines if name in line]


common = {"base_url": URL, "model_name": MODEL}
folder = f"{FOLDER}/sl"
sl_loop.main(sl_loop.Config(**common, log_path=folder, batch_size=16, learning_rate=5e-3, lora_rank=16))
found["nll"] = logged(folder, "train_mean_nll")

folder = f"{FOLDER}/rl"
rl_loop.main(rl_loop.Config(**common, log_path=folder, batch_size=4, group_size=4, lora_rank=16, max_tokens=16, max_steps=2))
found["rewards"] = logged(folder, "reward/total")

folder = f"{FOLDER}/guess"
config = guess_number.CLIConfig(
    model_name=MODEL, renderer_name="role_colon", batch_size=2, group_size=4, max_steps=2, eval_every=0, max_tokens=24, log_path=folder
)
asyncio.run(rl_train.main(guess_number.build_config(config)))
found["guess"] = logged(folder, "env/all/reward/total")

folder = f"{FOLDER}/dpo"
dpo.cli_main(dpo.CLIConfig(**common, renderer_name="role_colon", log_path=folder, batch_size=16, learning_rate=1e-3, lr_schedule="constant"))
found["margins"], found["accuracies"] = logged(folder, "margin"), logged(folder, "accuracy")

print(json.dumps(found))
