"""
Environments for TRL's GRPOTrainer through `rollout_func`. TRL owns the policy; prompts, cuts, masks and rewards are those of `vf-serve environment`.

    GRPOTrainer(model, reward_funcs=trl.reward, rollout_func=trl.rollout_func(env), train_dataset=trl.dataset(env), ...)
"""

import json
import uuid
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from datasets import Dataset

from . import Environment, VfSearchError
from .trl_sampling import from_model, from_vllm

Generate = Callable[[Any, list[dict[str, Any]]], Iterable[dict[str, Any]]]


def dataset(env: Environment) -> Dataset:
    """A row for each task: its prompt and example_id. TRL gives the rollout function prompts alone, so rows with equal prompts are refused."""
    rows = [{"prompt": _prompt(task["prompt"]), "example_id": str(task["example_id"])} for task in env.tasks()]
    first: dict[str, str] = {}
    for row in rows:
        if (other := first.setdefault(_key(row["prompt"]), row["example_id"])) != row["example_id"]:
            raise VfSearchError(f"The rows {other} and {row['example_id']} have the same prompt, by which TRL finds rows. Leave one of them out.")
    return Dataset.from_list(rows)


def reward(prompts: list[Any], completions: list[Any], vf_reward: list[float | None], **_: Any) -> list[float | None]:
    """The environment's rewards. None for a rollout that failed: TRL leaves it out of its group's baseline."""
    return vf_reward


def rollout_func(env: Environment, generate: Generate | None = None) -> Callable[[list[Any], Any], dict[str, Any]]:
    """Plays a rollout for each prompt. `generate(trainer, turns)` gives a sample for each turn. Default: the trainer's own model, or its vLLM with `use_vllm`."""
    example_ids = {_key(_prompt(task["prompt"])): task["example_id"] for task in env.tasks()}

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        requests: list[Any] = []
        for key, same in groupby(_key(_prompt(prompt)) for prompt in prompts):
            call = uuid.uuid4().hex
            requests += [{"example_id": example_ids[key], "group_id": f"{call}-{i // size}"} for i, _ in enumerate(same)]
        sample = generate or (from_vllm if trainer.use_vllm else from_model)
        window = getattr(trainer.model.config, "max_position_embeddings", None)
        limits = {"max_new_tokens": trainer.max_completion_length, **({"max_model_len": window} if window else {})}
        sampling = {"temperature": trainer.temperature, "top_p": trainer.top_p}
        played = env.play(requests, lambda turns: sample(trainer, turns), sampling=sampling, version=trainer.state.global_step, **limits)
        columns = [_columns(one, trainer) for one in played]
        return {name: [column[name] for column in columns] for name in columns[0]}

    return rollout


def _columns(rollout: dict[str, Any], trainer: Any) -> dict[str, Any]:
    """TRL counts a completion without EOS at its end as truncated, so one that ended otherwise gets an EOS that is not trained."""
    at, ids, mask = rollout["prompt_length"], rollout["token_ids"], rollout["loss_mask"]
    at = at if 0 < at else len(ids)
    ends = [*trainer.eos_token_ids, trainer._tokenizer.pad_token_id]
    end = trainer.eos_token_ids[:1] if len(ids) == at or not (rollout["is_truncated"] or ids[-1] in ends) else []
    return {
        "prompt_ids": ids[:at] or trainer.eos_token_ids[:1],
        "completion_ids": ids[at:] + end,
        "env_mask": mask[at:] + [0] * len(end),
        "logprobs": [value or 0.0 for value in rollout["logprobs"][at:]] + [0.0] * len(end),
        "vf_reward": rollout["reward"],
        "vf_error": rollout["error"] and rollout["error"]["type"],
    }


def _prompt(prompt: str | list[dict[str, Any]]) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _key(prompt: list[dict[str, str]]) -> str:
    return json.dumps(prompt)
