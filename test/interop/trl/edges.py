"""
What vf_search.trl gives TRL apart from a good run: other sampling, limits, failed rollouts, its vLLM. Arguments: the repository, the URL of an environment that
works, and that of one whose retriever is gone. Prints a line of JSON.
"""

import json
import os
import sys
from types import SimpleNamespace

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import torch
import trl as trl_package
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import GRPOConfig, GRPOTrainer

root, working_url, failing_url = sys.argv[1:]
sys.path.insert(0, os.path.join(root, "python"))
import vf_search
from vf_search import trl, trl_sampling

set_seed(1)
torch.set_num_threads(2)
NANO = os.path.join(root, "models/nano-base")


def trainer_of(env, **settings):
    config = GRPOConfig(
        output_dir="out", num_generations=8, max_steps=1, use_cpu=True, bf16=False, report_to=[], save_strategy="no",
        disable_tqdm=True, learning_rate=1e-4, logging_steps=1, **{"max_completion_length": 128, "per_device_train_batch_size": 16, **settings},
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(NANO, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)
    rows, play = trl.dataset(env).select(range(8)), trl.rollout_func(env)
    return GRPOTrainer(model=model, reward_funcs=trl.reward, args=config, train_dataset=rows, processing_class=tokenizer, rollout_func=play)


def own_difference(trainer, turns, samples):
    """The largest difference between the samples' log-probs and those that TRL computes."""
    differences = []
    for turn, sample in zip(turns, samples, strict=True):
        ids = torch.tensor([turn["context_ids"] + sample["token_ids"]])
        with torch.no_grad():
            own, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, torch.ones_like(ids), len(sample["token_ids"]))
        differences.append((own[0] - torch.tensor(sample["logprobs"])).abs().max().item())
    return max(differences)


def refusal(call):
    try:
        call()
    except vf_search.VfSearchError as error:
        return str(error)
    return None


def turns_of(trainer, count):
    context = trainer._tokenizer("Question: Where was Ada born?\n")["input_ids"]
    stops = (["</search>", "</answer>"], [" I"])
    return [{"context_ids": context[: len(context) - i % 3], "stop": stops[i % 2], "max_new_tokens": (5, 30)[i // 2 % 2]} for i in range(count)]


def sampled(trainer, sample):
    turns = turns_of(trainer, 16)
    samples = sample(trainer, turns)
    texts = [trainer._tokenizer.decode(each["token_ids"]) for each in samples]
    return {
        "difference": own_difference(trainer, turns, samples),
        "distinct": len({tuple(each["token_ids"]) for each in samples}),
        "too_long": sum(len(each["token_ids"]) > turn["max_new_tokens"] for turn, each in zip(turns, samples)),
        "past_stops": sum(stop in text[: -len(stop)] for turn, text in zip(turns, texts) for stop in turn["stop"]),
        "stopped_at_own": sum(text.endswith(turn["stop"][0]) for turn, text in zip(turns, texts) if turn["stop"] == [" I"]),
        "stopped_at_other": sum(text.endswith(" I") and len(each["token_ids"]) < turn["max_new_tokens"] for turn, text, each in zip(turns, texts, samples) if turn["stop"] != [" I"]),
    }


class Vllm:
    """Stands for TRL's vLLM, whose weights need a GPU to follow the trainer's: the same arguments and answers, sampled by the trainer's model."""

    mode, tensor_parallel_size = "colocate", 1

    def __init__(self, trainer):
        self.trainer, self.generation_kwargs, self.asked = trainer, {"seed": 1}, []

    def generate(self, prompts, images, num_generations):
        self.asked.append(self.generation_kwargs)
        turns = [{"context_ids": ids, "stop": self.generation_kwargs.get("stop", []), "max_new_tokens": self.generation_kwargs["max_tokens"]} for ids in prompts]
        samples = trl_sampling.from_model(self.trainer, turns)
        return prompts, [each["token_ids"] for each in samples], [[[value] for value in each["logprobs"]] for each in samples], None


out = {"version": trl_package.__version__}
working, failing = vf_search.connect(working_url), vf_search.connect(failing_url)
trainer = trainer_of(working, temperature=0.7, top_p=0.8, top_k=20, min_p=0.05)
out["sampled"] = sampled(trainer, trl_sampling.from_model)
vllm = trainer.vllm_generation = Vllm(trainer)
out["vllm"] = sampled(trainer, lambda *given: (setattr(trainer, "use_vllm", True), trl_sampling.from_vllm(*given), setattr(trainer, "use_vllm", False))[1])
out["vllm_asked"] = [vllm.asked, vllm.generation_kwargs]

prompts = [row["prompt"] for row in trl.dataset(working).select(range(2)) for _ in range(8)]
short = trainer_of(working, max_completion_length=24)
rows = short.rollout_func(prompts, short)
ends = [*short.eos_token_ids, short._tokenizer.pad_token_id]
out["short"] = {
    "longest": max(len(ids) - (ids[-1] in ends) for ids in rows["completion_ids"]),
    "cut": sum(len(ids) == 24 and ids[-1] not in ends for ids in rows["completion_ids"]),
    "uneven": sum(not len(ids) == len(mask) == len(values) for ids, mask, values in zip(rows["completion_ids"], rows["env_mask"], rows["logprobs"])),
}

asked = []
replaced = trl.rollout_func(working, lambda trainer, turns: asked.append(len(turns)) or trl_sampling.from_model(trainer, turns))
out["replaced"] = [len(replaced(prompts, trainer)["vf_reward"]), asked[0]]

twins = SimpleNamespace(tasks=lambda: [{"example_id": name, "prompt": "The same", "answer": None, "info": {}} for name in ("a", "b")])
out["twins"] = [refusal(lambda: trl.dataset(twins)), trl.dataset(twins, duplicates="first")["example_id"][:]]
out["stranger"] = refusal(lambda: trainer.rollout_func([[{"role": "user", "content": "Who was it? " * 50}]], trainer))

lost = {"token_ids": [], "loss_mask": [], "logprobs": [], "prompt_length": 0, "is_truncated": False, "reward": None, "error": {"type": "PolicyError", "message": "gone"}}
out["lost"] = trl._columns(lost, trainer)

kept = {}
unlucky = trainer_of(failing, per_device_train_batch_size=32)
play = unlucky.rollout_func
unlucky.rollout_func = lambda *given: kept.setdefault("rows", play(*given))
unlucky.train()
rows, [entry] = kept["rows"], [entry for entry in unlucky.state.log_history if "reward" in entry]
out["failed"] = {"errors": rows["vf_error"], "rewards": rows["vf_reward"], "mean": entry["reward"], "norm": entry["grad_norm"], "empty": sum(not ids for ids in rows["completion_ids"])}
print(json.dumps(out))
