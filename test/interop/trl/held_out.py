"""
Held-out evaluation, and what keeps TRL from training on nothing. Arguments: the repository, and the URLs of the environment's training rows, of its rows for
evaluation, of a server without a tokenizer, and of one whose retriever is gone. Prints a line of JSON.
"""

import json
import logging
import os
import sys

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import torch
import trl as trl_package
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import GRPOConfig, GRPOTrainer

root, *urls = sys.argv[1:]
sys.path.insert(0, os.path.join(root, "python"))
import vf_search
import vf_search.trl as vf_trl

set_seed(1)
torch.set_num_threads(2)
NANO = os.path.join(root, "models/nano-base")
train_env, eval_env, bare, failing = map(vf_search.connect, urls)


def trainer_of(rollout_func, rows, **settings):
    config = GRPOConfig(
        output_dir="out", num_generations=8, max_steps=2, use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1,
        max_completion_length=128, per_device_train_batch_size=16, per_device_eval_batch_size=8, mask_truncated_completions=True, **settings,
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(NANO, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)
    held_out = vf_trl.dataset(eval_env).select(range(3))
    return GRPOTrainer(model, vf_trl.reward, args=config, train_dataset=rows, eval_dataset=held_out, processing_class=tokenizer, rollout_func=rollout_func)


def refusal(call):
    try:
        call()
    except vf_search.VfSearchError as error:
        return str(error)
    return None


class Said(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


out = {"version": trl_package.__version__}
trainer = trainer_of(vf_trl.rollout_func(train_env, eval_env=eval_env), vf_trl.dataset(train_env).select(range(16)), eval_strategy="steps", eval_steps=1, num_generations_eval=4)
play, asked = trainer.rollout_func, []
trainer.rollout_func = lambda prompts, trainer: asked.append([trainer.model.training, len(prompts), len({json.dumps(prompt) for prompt in prompts})]) or play(prompts, trainer)
trainer.train()
out["asked"] = asked
out["evaluations"] = [entry["eval_reward"] for entry in trainer.state.log_history if "eval_reward" in entry]
mixed = [vf_trl.dataset(env)[0]["prompt"] for env in (eval_env, train_env, eval_env)]
rows = play(mixed, trainer)
out["mixed"] = [trainer._tokenizer.decode(ids).count(prompt[-1]["content"].split("Question:")[-1].strip()) for ids, prompt in zip(rows["prompt_ids"], mixed)]

out["not_held_out"] = refusal(lambda: vf_trl.rollout_func(train_env, eval_env=vf_search.connect(urls[0])))
out["bare"] = [refusal(lambda: vf_trl.rollout_func(bare)), refusal(lambda: vf_trl.rollout_func(train_env, eval_env=bare))]
out["left"] = [env._http.call("GET", "/health")["episodes"] for env in (train_env, eval_env)]

# Each rollout searches, and nothing answers.
search = AutoTokenizer.from_pretrained(NANO)("<search> Ada </search>")["input_ids"]
samples = lambda trainer, turns: [{"token_ids": search, "logprobs": [-1.0] * len(search)} for _ in turns]
said = Said()
logging.getLogger("vf_search").addHandler(said)
broken = trainer_of(vf_trl.rollout_func(failing, samples), vf_trl.dataset(failing))
out["broken"] = [refusal(broken.train), broken.state.global_step, said.lines]
said.lines = []
half = lambda trainer, turns: [{**sample, **({"token_ids": [search[0]], "logprobs": [-1.0]} if place % 2 else {})} for place, sample in enumerate(samples(trainer, turns))]
partly = trainer_of(vf_trl.rollout_func(failing, half), vf_trl.dataset(failing))
out["partly"] = [refusal(partly.train), partly.state.global_step, said.lines]
print(json.dumps(out))
