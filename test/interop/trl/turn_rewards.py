"""
What a reward function of TRL gets of an environment that rewards turns. Arguments: the repository, the environment's URL, what is said in its turns as JSON. Prints
a line of JSON.
"""

import json
import os
import sys

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import torch
import trl as trl_package
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

root, url, words = sys.argv[1:]
sys.path.insert(0, os.path.join(root, "python"))
import vf_search
from vf_search import trl

NANO = os.path.join(root, "models/nano-base")
heard = []


def with_turns(prompts, completions, vf_reward, vf_turn_rewards, **_):
    heard.extend(vf_turn_rewards)
    return [reward + sum(filter(None, turns)) for reward, turns in zip(vf_reward, vf_turn_rewards)]


def saying(trainer, turns):
    for turn in turns:
        ids = trainer._tokenizer(json.loads(words)[turn["turn"]])["input_ids"]
        yield {"token_ids": ids, "logprobs": [-1.0] * len(ids), "finish_reason": "stop"}


config = GRPOConfig(
    output_dir="out", per_device_train_batch_size=4, num_generations=2, max_completion_length=64, max_steps=1, use_cpu=True, bf16=False, report_to=[],
    save_strategy="no", disable_tqdm=True, logging_steps=1,
)  # fmt: skip
tokenizer = AutoTokenizer.from_pretrained(NANO, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)
env = vf_search.connect(url)
play = trl.rollout_func(env, saying)
trainer = GRPOTrainer(model=model, reward_funcs=with_turns, args=config, train_dataset=trl.dataset(env), processing_class=tokenizer, rollout_func=play)
trainer.train()
[entry] = [entry for entry in trainer.state.log_history if "reward" in entry]
print(json.dumps({"version": trl_package.__version__, "turn_rewards": heard, "mean": entry["reward"]}))
