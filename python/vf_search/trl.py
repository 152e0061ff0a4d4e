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

from . import Environment
from .branches import assert_one_sequence
from .trl_checks import Failures, check_tokenizer, message_of
from .trl_rows import Duplicates, key_of, row_of, rows_of, rows_of_both
from .trl_sampling import from_model, from_vllm

Generate = Callable[[Any, list[dict[str, Any]]], Iterable[dict[str, Any]]]


def dataset(env: Environment, duplicates: Duplicates = "refuse") -> Dataset:
    """A row for each task: its prompt and example_id. TRL finds rows by their prompts: rows with equal prompts are refused, or only the first of them is used."""
    return Dataset.from_list([{"prompt": json.loads(key), "example_id": str(example_id)} for key, example_id in rows_of(env, duplicates).items()])


def reward(prompts: list[Any], completions: list[Any], vf_reward: list[float | None], **_: Any) -> list[float | None]:
    """The environment's rewards. None for a rollout that failed: TRL leaves it out of its group's baseline."""
    return vf_reward


def rollout_func(
    env: Environment, generate: Generate | None = None, eval_env: Environment | None = None, duplicates: Duplicates = "refuse"
) -> Callable[[list[Any], Any], dict[str, Any]]:
    """
    Plays a rollout for each prompt of `env`, or of `eval_env` with held-out rows: `eval_dataset=trl.dataset(eval_env)`. `generate(trainer, turns)` returns a
    sample for each turn. Default: the trainer's own model, or its vLLM with `use_vllm`. Raises VfSearchError at a step where all rollouts failed.
    """
    rows, failures = rows_of_both(env, eval_env, duplicates), Failures()
    for served in [env, eval_env] if eval_env else [env]:
        check_tokenizer(served)

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        requests: dict[Environment, dict[int, Any]] = {}
        for key, same in groupby(enumerate(map(key_of, prompts)), lambda entry: entry[1]):
            (served, example_id), run = row_of(rows, key), uuid.uuid4().hex
            asked = {place: {"example_id": example_id, "group_id": f"{run}-{i // size}"} for i, (place, _) in enumerate(same)}
            requests.setdefault(served, {}).update(asked)
        sample = generate or (from_vllm if trainer.use_vllm else from_model)
        window = getattr(trainer.model.config, "max_position_embeddings", None)
        known = {"version": trainer.state.global_step, "sampling": {"temperature": trainer.temperature, "top_p": trainer.top_p}}
        limits = {"max_new_tokens": trainer.max_completion_length, **({"max_model_len": window} if window else {})}
        played: dict[int, dict[str, Any]] = {}
        for served, asked in requests.items():
            played.update(zip(asked, served.play(list(asked.values()), lambda turns: sample(trainer, turns), **known, **limits)))
        rollouts = [played[place] for place in range(len(prompts))]
        for each in rollouts:
            assert_one_sequence(each)
        failures.check(rollouts, trainer)
        columns = [_columns(each, trainer) for each in rollouts]
        return {name: [column[name] for column in columns] for name in columns[0]}

    return rollout


def _columns(rollout: dict[str, Any], trainer: Any) -> dict[str, Any]:
    """TRL counts a completion without EOS at its end as truncated: a completion that ended otherwise gets an untrained EOS, and one that TRL's limit cuts gets none."""
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
        "vf_turn_rewards": rollout.get("turn_rewards", []),
        "vf_error": message_of(rollout),
    }
