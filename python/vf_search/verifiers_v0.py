# mypy: disable-error-code="misc, import-untyped, import-not-found, untyped-decorator, no-untyped-call"
"""
Environments for verifiers 0.1.14. `vf-serve environment` plays and scores each rollout against the endpoint that verifiers would have asked itself.

    vf-eval vf-search -a '{"env": "search-r1"}' -m NAME -b http://127.0.0.1:8000/v1 -n 50 -r 2 -s

A rollout that failed has its error, and 0.0 as reward and metrics, because verifiers has no null; its means include them. Each rollout is scored alone.
"""

import asyncio
import functools
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

import verifiers as vf
from datasets import Dataset
from verifiers.types import ClientConfig

from . import Environment, VfSearchError
from .servers import Servers
from .verifiers_v0_state import ServedRubric, fill_state


def load_environment(env: str = "search-r1", url: str | None = None, api_key_var: str | None = None, **args: Any) -> vf.Environment:
    """`env` with its arguments, in a server that ends with this process, or the environment that is served at `url`, whose key is in `api_key_var`."""
    return VfSearchEnv(env, args, url, api_key_var)


class VfSearchEnv(vf.Environment):
    def __init__(self, env: str, args: dict[str, Any], url: str | None = None, api_key_var: str | None = None) -> None:
        self._servers = Servers()
        self._open = functools.partial(self._servers.open, env, args, url=url, api_key_var=api_key_var)
        super().__init__(dataset=lambda: self._rows("train"), eval_dataset=lambda: self._rows("eval"), rubric=ServedRubric())

    async def rollout(self, input: Any, client: Any, model: str, sampling_args: dict[str, Any] | None = None) -> vf.State:
        state = await self.init_state(input, client, model, sampling_args)
        policy, info = {"base_url": client._config.api_base_url, "model": model} | _key(client._config), state["info"]
        sampling = {key: value for key, value in (sampling_args or {}).items() if value is not None and key not in ("n", "logprobs")}
        served = await asyncio.to_thread(self._served, info["split"], policy)
        state["timing"].generation.start = time.time()
        try:
            lines = await asyncio.to_thread(lambda: list(served.rollouts([info["example_id"]], policy, sampling=sampling, messages=True)))
            fill_state(state, **lines[0])
            for step in state["trajectory"]:
                self.increment_state_usage_from_response(state, step["response"])
        except VfSearchError as error:
            if error.status is not None and error.status < 500:  # The others would be refused too.
                raise
            state.update(error=vf.InfraError(str(error)), completion=[], stop_condition="has_error", scores={})
        missing = float("nan") if state["error"] is None else 0.0
        state["scores"] = {name: state["scores"].get(name, missing) for name in ["reward", *await asyncio.to_thread(lambda: served.metrics)]}
        state["timing"].generation.end = time.time()
        return state

    def _rows(self, split: Any) -> Dataset:
        rows = self._open(split=split).tasks()
        infos = [json.dumps(row["info"] | {"example_id": row["example_id"], "split": split}) for row in rows]
        return Dataset.from_list([{"prompt": row["prompt"], "answer": row["answer"] or "", "info": info} for row, info in zip(rows, infos)])

    def _served(self, split: Any, policy: dict[str, str]) -> Environment:
        """The environment server sends requests only to hosts and with keys that its start allows."""
        host = urlsplit(policy["base_url"]).hostname
        allowed = {"allow_policy_key_var": f"{policy['api_key_var']}@{host}"} if "api_key_var" in policy else {}
        return self._open(split=split, allow_policy_host=host, **allowed)

    @vf.teardown
    async def close(self) -> None:
        self._servers.close()


def _key(config: ClientConfig) -> dict[str, str]:
    """None if the variable is not set: a server without a key. The key of Prime, which verifiers takes if none is
    named, is sent only to Prime."""
    is_meant = config.api_key_var != "PRIME_API_KEY" or (urlsplit(config.api_base_url).hostname or "").endswith(".pinference.ai")
    return {"api_key_var": config.api_key_var} if is_meant and os.environ.get(config.api_key_var) else {}
