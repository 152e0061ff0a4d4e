"""
Trains a model with TRL's GRPOTrainer in an environment of vf-search: an id, or a path such as one that vf-init wrote.

    pip install './node_modules/vf-search/python[trl]'
    python trl_train.py environments/my-env --model ./my-model --split eval --steps 20
"""

import argparse
import json

import torch
import vf_search.trl
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("env", help="id or path of the environment")
parser.add_argument("--args", default="{}", help="arguments of the environment, a JSON object")
parser.add_argument("--split", default="train", choices=["train", "eval"])
parser.add_argument("--model", required=True, help="the folder of the model, with its tokenizer")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch", type=int, default=32, help="rollouts of a step, a multiple of 8")
parser.add_argument("--lr", type=float, default=1e-6)
parser.add_argument("--max-tokens", type=int, default=512, help="longest completion, observations included")
parser.add_argument("--output", default="trl-output")
given = parser.parse_args()

with vf_search.serve(given.env, json.loads(given.args), given.split, tokenizer=given.model) as env:
    config = GRPOConfig(
        given.output, max_steps=given.steps, per_device_train_batch_size=given.batch, num_generations=8, max_completion_length=given.max_tokens,
        learning_rate=given.lr, mask_truncated_completions=True, logging_steps=1, report_to="none", bf16=torch.cuda.is_available(),
    )  # fmt: skip
    parts = {"processing_class": AutoTokenizer.from_pretrained(given.model, padding_side="left"), "train_dataset": vf_search.trl.dataset(env)}
    trainer = GRPOTrainer(given.model, vf_search.trl.reward, config, rollout_func=vf_search.trl.rollout_func(env), **parts)
    trainer.train()
    trainer.save_model()
print(f"The trained model is in {given.output}.")
