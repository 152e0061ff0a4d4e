"""
Trains nano-base with TRL's GRPOTrainer in an environment of vf-search, with TRL's own model as the policy. Arguments: a JSON object with `command`, `repository`,
`steps`, `sign` (-1 negates the reward), optionally `env`, `args`, `tokenizer` and `rows`. Prints a line of JSON.
"""

import json
import os
import sys
import time

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import torch
import trl as trl_package
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import GRPOConfig, GRPOTrainer

given = json.loads(sys.argv[1])
sys.path.insert(0, os.path.join(given["repository"], "python"))
import vf_search
from vf_search import trl

set_seed(1)
torch.set_num_threads(2)
model_path = given.get("tokenizer", os.path.join(given["repository"], "models/nano-base"))
world = {"dataset": "fact-world", "corpus": "fact-world", "max_turns": 2}
checks = {"trained": 0, "difference": 0.0, "observed": 0, "logged": 0}
seconds = []

with vf_search.serve(
    given.get("env", "search-r1"), given.get("args", world), split="train", tokenizer=model_path, command=given["command"], cwd=given["repository"]
) as env:
    play = trl.rollout_func(env)

    def timed(prompts, trainer):
        began = time.monotonic()
        out = play(prompts, trainer)
        seconds.append(time.monotonic() - began)
        return out

    def reward(prompts, completions, vf_reward, **_):
        return [None if value is None else given["sign"] * value for value in trl.reward(prompts, completions, vf_reward)]

    config = GRPOConfig(
        output_dir="out", per_device_train_batch_size=32, num_generations=8, max_completion_length=256, max_steps=given["steps"], use_cpu=True, bf16=False,
        report_to=[], save_strategy="no", disable_tqdm=True, beta=0.0, learning_rate=given.get("learning_rate", 3e-4), lr_scheduler_type="constant", logging_steps=1,
        mask_truncated_completions=True, seed=1,
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(model_path, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    rows = trl.dataset(env).shuffle(seed=1).select(range(given.get("rows", 64)))
    trainer = GRPOTrainer(model=model, reward_funcs=reward, args=config, train_dataset=rows, processing_class=tokenizer, rollout_func=timed)
    generate = trainer._generate_and_score_completions

    def checked(inputs):
        """Compares the sampler's log-probs with those that TRL computes for the same tokens."""
        batch = generate(inputs)
        with torch.no_grad():
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
            seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
            own, _, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, seen, batch["completion_ids"].size(1))
        mask = (batch["tool_mask"] * batch["completion_mask"]).bool()
        checks["trained"] += int(mask.sum())
        checks["difference"] = max(checks["difference"], (own - batch["sampling_per_token_logps"]).abs()[mask].max().item())
        checks["observed"] += int((batch["completion_mask"].bool() & ~mask).sum())
        return batch

    trainer._generate_and_score_completions = checked
    trainer.train()

history = [entry for entry in trainer.state.log_history if "reward" in entry]
print(
    json.dumps(
        {
            "version": trl_package.__version__,
            "torch": torch.__version__,
            "rewards": [entry["reward"] for entry in history],
            "clipped": [entry["completions/clipped_ratio"] for entry in history],
            "norms": [entry["grad_norm"] for entry in history],
            "seconds": seconds,
            **checks,
        }
    )
)
