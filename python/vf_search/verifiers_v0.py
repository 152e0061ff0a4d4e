# mypy: disable-error-code="misc, import-untyped, import-not-found, untyped-decorator, no-untyped-call"
"""
Environments for verifiers 0.1.14. `vf-serve environment` plays and scores each rollout against the endpoint that verifiers would have asked itself.

    vf-eval vf-search -a '{"env": "search-r1"}' -m NAME -b http://127.0.0.1:8000/v1 -n 50 -r 2 -s

A rollout that failed has its error, and 0.0 as reward and metrics, because verifiers has no null; its means include them. Each rollout is scored alone.
"""

import asyncio
import json
import os
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import verifiers as vf
from datasets import Dataset
from verifiers.types import ClientConfig, Response, ResponseMessage, TrajectoryStep, Usage

from . import Environment, VfSearchError, connect, serve


def load_environment(env: str = "search-r1", url: str | None = None, api_key_var: str | None = None, **args: Any) -> vf.Environment:
    """`env` with its arguments, in a server that ends with this process, or the environment that is served at `url`, whose key is in `api_key_var`."""
    return VfSearchEnv(env, args, url, os.environ[api_key_var] if api_key_var else None)


class VfSearchEnv(vf.Environment):
    def __init__(self, env: str, args: dict[str, Any], url: str | None = None, api_key: str | None = None) -> None:
        self._open = lambda split, **options: serve(env, args, split, **options) if url is None else connect(url, api_key)
        self._servers: dict[tuple[str | None, ...], Environment] = {}
        self._lock = threading.Lock()
        super().__init__(dataset=lambda: self._rows("train"), eval_dataset=lambda: self._rows("eval"), rubric=_Rubric())

    async def rollout(self, input: Any, client: Any, model: str, sampling_args: dict[str, Any] | None = None) -> vf.State:
        state = await self.init_state(input, client, model, sampling_args)
        policy, info = {"base_url": client._config.api_base_url, "model": model} | _key(client._config), state["info"]
        sampling = {key: value for key, value in (sampling_args or {}).items() if value is not None and key not in ("n", "logprobs")}
        served = await asyncio.to_thread(self._served, info["split"], policy)
        state["timing"].generation.start = time.time()
        try:
            lines = await asyncio.to_thread(lambda: list(served.rollouts([info["example_id"]], policy, sampling=sampling, messages=True)))
            self._fill(state, **lines[0])
        except VfSearchError as error:
            if error.status is not None and error.status < 500:  # The others would be refused too.
                raise
            state.update(error=vf.InfraError(str(error)), completion=[], stop_condition="has_error", scores={})
        missing = float("nan") if state["error"] is None else 0.0
        state["scores"] = {name: state["scores"].get(name, missing) for name in ["reward", *await asyncio.to_thread(lambda: served.metrics)]}
        state["timing"].generation.end = time.time()
        return state

    def _rows(self, split: str) -> Dataset:
        with self._open(split) as served:
            rows = served.tasks()
        infos = [json.dumps(row["info"] | {"example_id": row["example_id"], "split": split}) for row in rows]
        return Dataset.from_list([{"prompt": row["prompt"], "answer": row["answer"] or "", "info": info} for row, info in zip(rows, infos)])

    def _served(self, split: str, policy: dict[str, str]) -> Environment:
        host, key_var = urlsplit(policy["base_url"]).hostname, policy.get("api_key_var")
        with self._lock:
            if (split, host, key_var) not in self._servers:
                allowed = {"allow_policy_host": host} | ({"allow_policy_key_var": key_var} if key_var else {})
                self._servers[split, host, key_var] = self._open(split, **allowed)
            return self._servers[split, host, key_var]

    def _fill(self, state: vf.State, messages: list[dict[str, Any]], error: dict[str, Any] | None, **played: Any) -> None:
        failure = None if error is None else (vf.InfraError if error["retryable"] else vf.Error)(f"{error['type']}: {error['message']}")
        said = [place for place, message in enumerate(messages) if place >= len(state["prompt"]) and message["role"] == "assistant"]
        state.update(completion=messages[said[0] :] if said else [], error=failure, is_completed=error is None, is_truncated=played["is_truncated"])
        state.update(stop_condition=played["stop_condition"], scores={**played["metrics"], "reward": played["reward"] or 0.0})
        turns = [segment for segment in played.get("segments", []) if segment["kind"] == "model"]
        for place, turn in enumerate(turns):
            at = said[place] if len(said) == len(turns) else said[-1]  # In continuation format all turns are one message.
            is_cut, end = played["is_truncated"] and turn is turns[-1], turn["end"]
            usage = Usage(prompt_tokens=turn["start"], completion_tokens=end - turn["start"], total_tokens=end, reasoning_tokens=0)
            message = ResponseMessage(content=messages[at]["content"], finish_reason="length" if is_cut else "stop", is_truncated=is_cut)
            response = Response(id=f"{played['rollout_id']}/{place}", created=0, model=state["model"], usage=usage, message=message)
            common: Any = {"is_truncated": is_cut, "trajectory_id": state["trajectory_id"], "reward": None, "advantage": None, "extras": {}}
            step = TrajectoryStep(prompt=messages[:at], completion=[messages[at]], response=response, tokens=_tokens(played, turn, is_cut), **common)
            state["trajectory"].append(step)
            self.increment_state_usage_from_response(state, response)

    @vf.teardown
    async def close(self) -> None:
        for served in self._servers.values():
            served.close()


class _Rubric(vf.Rubric):
    """The scores of the server. A failed rollout has no part in the advantages of its group."""

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


def _key(config: ClientConfig) -> dict[str, str]:
    """None where the variable is not set: a server without a key. Prime's, which verifiers takes where none is named, goes to Prime alone."""
    is_meant = config.api_key_var != "PRIME_API_KEY" or (urlsplit(config.api_base_url).hostname or "").endswith(".pinference.ai")
    return {"api_key_var": config.api_key_var} if is_meant and os.environ.get(config.api_key_var) else {}
