"""verifiers 0.1.14's rollout engine without HTTP: CPU ms per episode, with the cheapest client that it allows. Prints one JSON line."""

import asyncio
import json
import logging
import resource
import statistics
import sys

import verifiers as vf
from searchr1_peer import load_environment
from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, Usage

logging.disable(logging.WARNING)
TEXTS = ["<think>I need to look this up.</think>\n<search>who is it</search>", "<think>Found.</think>\n<answer>Beijing</answer>"]


class Instant(Client):
    def __init__(self):
        super().__init__(None)

    def setup_client(self, config): ...

    async def to_native_tool(self, tool):
        return tool

    async def to_native_prompt(self, messages):
        return messages, {}

    async def raise_from_native_response(self, response): ...

    async def close(self): ...

    async def from_native_response(self, response):
        return response

    async def get_native_response(self, prompt, model, sampling_args, tools=None, **kwargs):
        roles = [m["role"] if isinstance(m, dict) else m.role for m in prompt]
        usage = Usage(prompt_tokens=100, reasoning_tokens=0, completion_tokens=20, total_tokens=120)
        message = ResponseMessage(content=TEXTS[int("assistant" in roles)], finish_reason="stop", is_truncated=False)
        return Response(id="x", created=0, model=model, usage=usage, message=message)


async def play(env, rows, client, concurrency):
    gate = asyncio.Semaphore(concurrency)

    async def one(row):
        async with gate:
            return await env.run_rollout(row, client, "instant", {})

    return await asyncio.gather(*map(one, rows))


def main(n, concurrency, runs):
    env = load_environment(n)
    rows = env.get_eval_dataset().to_list()
    client = Instant()
    asyncio.run(play(env, rows[:100], client, concurrency))
    spent = []
    for _ in range(runs):
        before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        out = asyncio.run(play(env, rows, client, concurrency))
        spent.append((sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before) * 1e3 / n)
        assert all(o["metrics"]["num_turns"] == 2 and not o.get("error") for o in out)
    print(json.dumps({"engine": "verifiers " + vf.__version__, "episodes": n, "cpu_ms_per_episode": statistics.median(spent)}))


main(*map(int, sys.argv[1:4]))
