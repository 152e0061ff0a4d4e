"""Keeps TRL from training on nothing: checks the server before the first step, and the rollouts of each step."""

import logging
from typing import Any

from accelerate.utils import gather_object

from .environment import Environment
from .errors import VfSearchError

_LOGGER = logging.getLogger("vf_search")


def check_tokenizer(env: Environment) -> None:
    """Begins an episode by token ids and deletes it: there is no other way to find out whether the server can play by token ids."""
    try:
        turns = env.episodes([task["example_id"] for task in env.tasks()[:1]])
    except VfSearchError as error:
        if error.status == 503:  # It is full of other episodes, which it says only where it has a tokenizer.
            return
        if "no tokenizer" not in str(error):
            raise
        raise VfSearchError(
            "TRL plays by token ids, and the server has no tokenizer. Make it with serve(..., tokenizer=FOLDER) or start it with --tokenizer FOLDER, "
            "the folder of the model that you train.",
            type=error.type,
            status=error.status,
        ) from None
    for turn in turns:
        if not turn.get("done"):
            env.delete(turn["episode_id"])


def message_of(rollout: dict[str, Any]) -> str | None:
    error = rollout["error"]
    return None if error is None else f"{error['type']}: {error['message']}"


class Failures:
    """Reports why rollouts fail, once for each type of error, and ends the training at a step without a finished
    rollout."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def check(self, rollouts: list[dict[str, Any]], trainer: Any) -> None:
        failed = [rollout for rollout in rollouts if rollout["error"] is not None]
        for rollout in failed:
            if rollout["error"]["type"] not in self._said:
                self._said.add(rollout["error"]["type"])
                _LOGGER.warning(
                    "A rollout of the row %s failed and has no reward. %s (Said once for each type of error; the column vf_error has them all.)",
                    rollout["example_id"],
                    message_of(rollout),
                )
        # An evaluation without rewards is NaN in TRL's log. All processes of a step must have failed, so that none waits for one that has ended.
        if trainer.model.training and not any(gather_object([len(failed) < len(rollouts)])):
            first = failed[0]["error"]
            step = f"All {len(rollouts)} rollouts of step {trainer.state.global_step + 1} failed, so there is nothing to train on."
            raise VfSearchError(f"{step} The first: {message_of(failed[0])}", type=first["type"])
