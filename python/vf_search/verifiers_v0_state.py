# mypy: disable-error-code="misc, import-untyped, import-not-found, untyped-decorator, no-untyped-call"
"""A rollout that `vf-serve environment` played and scored, as a State of verifiers 0.1.14."""

from typing import Any

import verifiers as vf
from verifiers.types import Response, ResponseMessage, TrajectoryStep, Usage

from .branches import assert_one_sequence

__all__ = ["ServedRubric", "fill_state"]


def fill_state(state: vf.State, messages: list[dict[str, Any]], error: dict[str, Any] | None, **played: Any) -> None:
    """Writes a rollout of `vf-serve environment` into a State, a trajectory step for each turn of the model."""
    assert_one_sequence(played)
    failure = None if error is None else (vf.InfraError if error["retryable"] else vf.Error)(f"{error['type']}: {error['message']}")
    said = [place for place, message in enumerate(messages) if place >= len(state["prompt"]) and message["role"] == "assistant"]
    state.update(completion=messages[said[0] :] if said else [], error=failure, is_completed=error is None, is_truncated=played["is_truncated"])
    state.update(stop_condition=played["stop_condition"], scores={**played["metrics"], "reward": played["reward"] or 0.0})
    turns = [segment for segment in played.get("segments", []) if segment["kind"] == "model"]
    rewards = dict(enumerate(played.get("turn_rewards", [])))
    for place, turn in enumerate(turns):
        at = said[place] if len(said) == len(turns) else said[-1]  # In continuation format all turns are one message.
        is_cut, end = played["is_truncated"] and turn is turns[-1], turn["end"]
        usage = Usage(prompt_tokens=turn["start"], completion_tokens=end - turn["start"], total_tokens=end, reasoning_tokens=0)
        message = ResponseMessage(content=messages[at]["content"], finish_reason="length" if is_cut else "stop", is_truncated=is_cut)
        response = Response(id=f"{played['rollout_id']}/{place}", created=0, model=state["model"], usage=usage, message=message)
        common: Any = {"is_truncated": is_cut, "trajectory_id": state["trajectory_id"], "reward": None, "advantage": None}
        extras = {"turn_reward": rewards[place]} if rewards.get(place) is not None else {}
        step = TrajectoryStep(prompt=messages[:at], completion=[messages[at]], response=response, tokens=_tokens(played, turn, is_cut), extras=extras, **common)
        state["trajectory"].append(step)


class ServedRubric(vf.Rubric):
    """The scores of the server. A failed rollout does not enter the advantages of its group."""

    async def score_rollout(self, state: vf.State) -> None:
        state["metrics"] = dict(state["scores"])
        state["reward"] = state["metrics"].pop("reward")

    async def score_group(self, states: list[vf.State]) -> None:
        for state in states:
            await self.score_rollout(state)
        finished = [state["reward"] for state in states if state["error"] is None]
        for state in states:
            state["advantage"] = 0.0 if state["error"] else state["reward"] - sum(finished) / len(finished)
            for step in state["trajectory"]:
                step.update(reward=state["reward"], advantage=state["advantage"])


def _tokens(played: dict[str, Any], turn: dict[str, int], is_cut: bool) -> Any:
    ids, start, own = played["token_ids"], turn["start"], slice(turn["start"], turn["end"])
    masks = {"prompt_mask": [0] * start, "completion_mask": played["loss_mask"][own], "completion_logprobs": played["logprobs"][own]}
    return {"prompt_ids": ids[:start], "completion_ids": ids[own], **masks, "is_truncated": is_cut, "overlong_prompt": False, "routed_experts": None}
