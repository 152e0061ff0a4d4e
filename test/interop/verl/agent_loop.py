"""
verl's agent loop without Ray: VfSearchAgentLoop as verl's worker makes it, over a server manager that asks a vLLM route by token ids.

argv: the repository, URL of the model, the environment by split as JSON, response length, whether stop strings are sent, then example ids.
"""
import asyncio
import importlib.metadata
import json
import os
import sys
import urllib.request

root, url, env, response_length, has_stops, *example_ids = sys.argv[1:]
sys.path.insert(0, os.path.join(root, "python"))
import hydra
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap, _agent_loop_registry
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

import vf_search.verl

FOLDER = os.path.join(root, "models/nano-base")
asked = []


def complete(body):
    request = urllib.request.Request(url + "/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]


class Servers:
    """LLMServerClient.generate: keeps the tokens of a stop string, and calls both `stop` and `length` completed."""

    async def generate(self, request_id, *, prompt_ids, sampling_params, image_data=None, video_data=None, audio_data=None, mm_processor_kwargs=None, **kwargs):
        asked.append([request_id, "stop" in sampling_params])
        sampling = {key: value for key, value in sampling_params.items() if key not in ("logprobs", "repetition_penalty")}
        fixed = {"model": "nano-base", "prompt": prompt_ids, "return_token_ids": True, "logprobs": 0}
        choice = await asyncio.to_thread(complete, fixed | sampling)
        steps = {"global_steps": 3, "min_global_steps": 3, "max_global_steps": 3}
        return TokenOutput(token_ids=choice["token_ids"], log_probs=choice["logprobs"]["token_logprobs"], stop_reason="completed", extra_fields=steps)


rollout = {
    "name": "vllm" if has_stops == "true" else "sglang",
    "skip_tokenizer_init": True,
    "prompt_length": 512,
    "response_length": int(response_length),
    "max_model_len": 2048,
}
config = OmegaConf.create({"actor_rollout_ref": {"model": {"path": FOLDER}, "rollout": rollout}, "data": {}})
registered = OmegaConf.create({"name": "vf_search", **_agent_loop_registry["vf_search"], "env": json.loads(env)})
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
sampling_params = {"temperature": 0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}


async def play(example_id):
    # An instance for each rollout, as verl does.
    loop = hydra.utils.instantiate(
        config=registered,
        trainer_config=DictConfigWrap(config=config),
        server_manager=Servers(),
        tokenizer=tokenizer,
        processor=None,
        hf_model_type="qwen3",
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=None,
    )
    return await loop.run(dict(sampling_params), example_id=example_id, split="eval", raw_prompt=[], index=0)


def described(example_id, output):
    if isinstance(output, BaseException):
        return {"example_id": example_id, "error": f"{type(output).__name__}: {output}"}
    fields = output.as_dict()
    lists = {name: fields[name].tolist() for name in ("prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores")}
    # JSON has no NaN.
    turn_scores = [None if score != score else score for score in output.extra_fields["turn_scores"]]
    return {"example_id": example_id, "error": None, "num_turns": output.num_turns, "extra": {**output.extra_fields, "turn_scores": turn_scores}, **lists}


async def main():
    return await asyncio.gather(*(play(example_id) for example_id in example_ids), return_exceptions=True)


outputs = asyncio.run(main())
assert all(isinstance(each, (AgentLoopOutput, Exception)) for each in outputs)
print(
    json.dumps(
        {
            "version": importlib.metadata.version("verl"),
            "outputs": [described(example_id, output) for example_id, output in zip(example_ids, outputs)],
            "sessions": len({request_id for request_id, _ in asked}),
            "with_stops": sum(has_stop for _, has_stop in asked),
            "asked": len(asked),
        }
    )
)
