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
    return Dataset.from_list([{"prompt": json.loads(key), "example_id": str(example_id)} for key, example_id in _rows(env).items()])


def reward(prompts: list[Any], completions: list[Any], vf_reward: list[float | None], **_: Any) -> list[float | None]:
    """The environment's rewards. None for a rollout that failed: TRL leaves it out of its group's baseline."""
    return vf_reward


def rollout_func(env: Environment, generate: Generate | None = None) -> Callable[[list[Any], Any], dict[str, Any]]:
    """Plays a rollout for each prompt. `generate(trainer, turns)` gives a sample for each turn. Default: the trainer's own model, or its vLLM with `use_vllm`."""
    example_ids = _rows(env)

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        requests: list[Any] = []
        for key, same in groupby(map(_key, prompts)):
            if key not in example_ids:
                raise VfSearchError(f"The environment has no row with the prompt {key[:200]}. Train on the rows of trl.dataset(env), with their prompts as they are.")
            run = uuid.uuid4().hex
            requests += [{"example_id": example_ids[key], "group_id": f"{run}-{i // size}"} for i, _ in enumerate(same)]
        sample = generate or (from_vllm if trainer.use_vllm else from_model)
        window = getattr(trainer.model.config, "max_position_embeddings", None)
        known = {"version": trainer.state.global_step, "sampling": {"temperature": trainer.temperature, "top_p": trainer.top_p}}
        limits = {"max_new_tokens": trainer.max_completion_length, **({"max_model_len": window} if window else {})}
        played = env.play(requests, lambda turns: sample(trainer, turns), **known, **limits)
        columns = [_columns(each, trainer) for each in played]
        return {name: [column[name] for column in columns] for name in columns[0]}

    return rollout


def _columns(rollout: dict[str, Any], trainer: Any) -> dict[str, Any]:
    """TRL counts a completion without EOS at its end as truncated: one that ended otherwise gets an untrained EOS, one that TRL's limit cuts gets none."""
    ids, at = rollout["token_ids"], rollout["prompt_length"] or len(rollout["token_ids"])
    kept = slice(at, at + trainer.max_completion_length)
    is_whole = len(ids) <= kept.stop and not rollout["is_truncated"]
    end = trainer.eos_token_ids[:1] if len(ids) == at or (is_whole and ids[-1] not in [*trainer.eos_token_ids, trainer._tokenizer.pad_token_id]) else []
    return {
        "prompt_ids": ids[:at] or trainer.eos_token_ids[:1],
        "completion_ids": ids[kept] + end,
        "env_mask": rollout["loss_mask"][kept] + [0] * len(end),
        "logprobs": [value or 0.0 for value in rollout["logprobs"][kept]] + [0.0] * len(end),
        "vf_reward": rollout["reward"],
        "vf_error": rollout["error"] and rollout["error"]["type"],
    }


def _rows(env: Environment) -> dict[str, str | int]:
    rows: dict[str, str | int] = {}
    for task in env.tasks():
        if (other := rows.setdefault(_key(task["prompt"]), task["example_id"])) != task["example_id"]:
            raise VfSearchError(f"The rows {other} and {task['example_id']} have the same prompt, by which TRL finds rows. Leave one of them out.")
    return rows


def _key(prompt: str | list[dict[str, Any]]) -> str:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return json.dumps([{"role": message["role"], "content": message["content"]} for message in messages])
