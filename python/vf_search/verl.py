"""
An agent loop for verl 0.9.1: verl's rollout servers sample by token ids; prompts, observations, masks and rewards come from `vf-serve environment`.

    python -m vf_search.verl_rows search-r1 train train.parquet
    python -m verl.trainer.main_ppo data.train_files=train.parquet actor_rollout_ref.rollout.agent.agent_loop_config_path=vf_search.yaml ...

vf_search.yaml is `[{name: vf_search, _target_: vf_search.verl.VfSearchAgentLoop, env: search-r1}]`. A rollout that failed raises, so that verl has no reward for
it. The rest of its group is trained; trainer.v1.sampler.sync_refill_failed_groups=True replaces groups without any. With trainer.use_v1=False the step fails.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.utils.profiler import simple_timer

from . import Environment, VfSearchError
from .branches import assert_one_sequence
from .servers import Servers

_SERVERS, _THREADS = Servers(), ThreadPoolExecutor(1024, "vf_search")


@register("vf_search")
class VfSearchAgentLoop(AgentLoopBase):
    """`env`: an id or a path, which each worker process serves, the URL of a server, or one of these by split. `model_folder`: if model.path is not a folder."""

    def __init__(self, *given: Any, env: Any = "search-r1", args: Any = None, model_folder: str | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._env, self._args = env, OmegaConf.to_container(OmegaConf.create(args or {}))
        self._folder = model_folder or self.config.actor_rollout_ref.model.path

    def _served(self, split: Any) -> Environment:
        env = self._env[split] if isinstance(self._env, Mapping) else self._env
        return _SERVERS.open(env, self._args, split, self._folder, url=env if "://" in env else None)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        loop, request_id = asyncio.get_running_loop(), uuid4().hex
        timing, steps, limits = {"generate_sequences": 0.0}, dict[str, Any](), self.rollout_config
        window = min(filter(None, (limits.prompt_length + limits.response_length, limits.max_model_len)))

        async def generate(turn: dict[str, Any]) -> dict[str, Any]:
            # Without a detokenizer in the rollout server, it samples past stop strings, and the environment drops the rest.
            stop = {"stop": turn["stop"]} if turn["stop"] and (limits.name == "vllm" or not limits.skip_tokenizer_init) else {}
            wanted = {**sampling_params, **stop, "max_tokens": turn["max_new_tokens"], "logprobs": True}
            with simple_timer("generate_sequences", timing):
                output = await self.server_manager.generate(request_id=request_id, prompt_ids=turn["context_ids"], sampling_params=wanted)
            if output.stop_reason in ("aborted", "abort"):
                raise VfSearchError("verl's rollout server aborted the generation.")
            steps.update({key: value for key, value in output.extra_fields.items() if key == "max_global_steps" or key == "min_global_steps" and key not in steps})
            ending = {"finish_reason": "length"} if output.stop_reason == "length" else {}
            return {"token_ids": list(output.token_ids), "logprobs": list(output.log_probs or []), **ending}

        def play() -> tuple[dict[str, Any], list[str]]:
            served = self._served(str(row.get("split", "train")))
            sample = lambda turns: [asyncio.run_coroutine_threadsafe(generate(turn), loop).result() for turn in turns]
            return served.play([str(row["example_id"])], sample, max_model_len=window)[0], served.metrics

        played, names = await loop.run_in_executor(_THREADS, play)
        if played["error"] is not None:
            raise VfSearchError(f"{row['example_id']}: {played['error']['type']}: {played['error']['message']}", type=played["error"]["type"])
        assert_one_sequence(played)
        start = played["prompt_length"]
        if start > limits.prompt_length:
            raise VfSearchError(f"The prompt of {row['example_id']} has {start} tokens. Set data.max_prompt_length to at least {start}.")
        kept = slice(start, start + limits.response_length)
        scores = {name: played["metrics"].get(name, float("nan")) for name in names}
        turn_scores = [float("nan") if score is None else score for score in played.get("turn_rewards", [])]
        return AgentLoopOutput(
            prompt_ids=played["token_ids"][:start],
            response_ids=played["token_ids"][kept],
            response_mask=played["loss_mask"][kept],
            response_logprobs=[value or 0.0 for value in played["logprobs"][kept]],
            reward_score=played["reward"],
            num_turns=len(played["segments"]),
            metrics=AgentLoopMetrics(generate_sequences=timing["generate_sequences"]),
            extra_fields={"reward_extra_info": scores, "stop_condition": played["stop_condition"], "turn_scores": turn_scores, "tool_rewards": [], **steps},
        )
