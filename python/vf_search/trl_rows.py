"""Rows by their prompts: TRL gives a rollout function only prompts."""

import json
import textwrap
from typing import Any, Literal

from .environment import Environment
from .errors import VfSearchError

Duplicates = Literal["refuse", "first"]
Rows = dict[str, tuple[Environment, str | int]]
"""The environment and the example id of each prompt."""


def rows_of(env: Environment, duplicates: Duplicates) -> dict[str, str | int]:
    """The example id of each prompt, in the order of the rows."""
    rows: dict[str, str | int] = {}
    for task in env.tasks():
        other = rows.setdefault(key_of(task["prompt"]), task["example_id"])
        if other != task["example_id"] and duplicates != "first":
            raise VfSearchError(
                f"The rows {other} and {task['example_id']} have the same prompt, by which TRL finds rows. Leave one of them out, or give "
                'duplicates="first" to dataset and to rollout_func, which then use the first row of each prompt.'
            )
    return rows


def rows_of_both(env: Environment, eval_env: Environment | None, duplicates: Duplicates) -> Rows:
    rows: Rows = {key: (env, example_id) for key, example_id in rows_of(env, duplicates).items()}
    if eval_env is None:
        return rows
    for key, example_id in rows_of(eval_env, duplicates).items():
        if key in rows:
            raise VfSearchError(
                f"The row {rows[key][1]} of env and the row {example_id} of eval_env have the same prompt, by which TRL finds rows, so it is not held out. "
                "Serve another split or other rows as eval_env. To evaluate on the rows of env, leave eval_env out."
            )
        rows[key] = (eval_env, example_id)
    return rows


def row_of(rows: Rows, key: str) -> tuple[Environment, str | int]:
    if key not in rows:
        shown = textwrap.shorten(str(json.loads(key)[-1]["content"]), 200, placeholder=" …")
        raise VfSearchError(
            f"The environment has no row with the prompt {shown!r}. Use the rows of trl.dataset(env), with their prompts as they are; for rows of another "
            "split, make the function with rollout_func(env, eval_env=...)."
        )
    return rows[key]


def key_of(prompt: str | list[dict[str, Any]]) -> str:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return json.dumps([{"role": message["role"], "content": message["content"]} for message in messages])
