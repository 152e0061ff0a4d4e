"""Trains a model in any environment of vf-search with TRL's GRPOTrainer: pip install './python[trl]' && python examples/trl_train.py --help"""

import argparse
import contextlib
import json
import os

import vf_search
import vf_search.trl as vf_trl
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("env", help="an environment's id or path, such as search-r1 or environments/my-notes")
parser.add_argument("--args", type=json.loads, default={}, help="its arguments, a JSON object")
parser.add_argument("--model", default="models/nano-base", help="folder of the model")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--batch", type=int, default=32, help="rollouts a step, a multiple of 8")
parser.add_argument("--eval", type=int, default=0, metavar="ROWS", help="held-out rows to evaluate on, before and after")
parser.add_argument("--max-completion-length", type=int, default=512, help="tokens of a completion, what the environment writes included")
parser.add_argument("--learning-rate", type=float, default=3e-4, help="3e-4 suits nano-base; a large language model takes about 1e-6")
parser.add_argument("--output", default="outputs/trl")
given = parser.parse_args()
if not os.path.isdir(given.model):
    parser.exit(2, f"The folder {given.model} does not exist. Name the folder of a model with --model, such as models/nano-base in the folder of vf-search.\n")

tokenizer = AutoTokenizer.from_pretrained(given.model, padding_side="left")
config = GRPOConfig(
    output_dir=given.output,
    max_steps=given.steps,
    per_device_train_batch_size=given.batch,
    num_generations=8,
    max_completion_length=given.max_completion_length,
    learning_rate=given.learning_rate,
    mask_truncated_completions=True,
    beta=0.0,
    bf16=False,
    logging_steps=1,
    report_to=[],
)
with contextlib.ExitStack() as open_envs:
    serve = lambda split: open_envs.enter_context(vf_search.serve(given.env, given.args, split, tokenizer=given.model))
    env, held_out = serve("train"), serve("eval") if given.eval else None
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(given.model, dtype="float32"),
        vf_trl.reward,
        args=config,
        train_dataset=vf_trl.dataset(env),
        eval_dataset=vf_trl.dataset(held_out).take(given.eval) if held_out else None,
        processing_class=tokenizer,
        rollout_func=vf_trl.rollout_func(env, eval_env=held_out),
    )
    before = trainer.evaluate() if held_out else {}
    trainer.train()
    if held_out:
        print(f"Held-out reward: {before['eval_reward']:.3f} before, {trainer.evaluate()['eval_reward']:.3f} after.")
