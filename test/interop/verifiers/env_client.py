"""verifiers' own EnvClient against `vf-serve verifiers`. Arguments: what to do, the server's address, the policy's base URL, the number of runs, further sampling parameters."""

import asyncio
import json
import sys
import time
from importlib.metadata import version

from verifiers.v1.configs.client import EvalClientConfig, TrainClientConfig
from verifiers.v1.serve import EnvClient
from verifiers.v1.types import SamplingConfig
from vf_search.verifiers_v1 import VfSearchTaskset, VfSearchTasksetConfig

GREEDY = SamplingConfig(temperature=0.0, max_tokens=48, top_k=-1, extra_body={"cache_salt": "step-3"})


def recorded(episode):
    """What a trainer reads of an episode, in plain values."""
    [trace] = episode.traces
    [branch] = trace.branches
    floats = [*branch.logprobs, *(r.score for r in trace.rewards.values() if r), *(m for m in trace.metrics.values() if m is not None)]
    return {
        "key": trace.task.key,
        "hash": trace.task.hash,
        "ok": [episode.ok, trace.ok],
        "token_ids": branch.token_ids,
        "mask": [int(sampled) for sampled in branch.sampled_mask],
        "logprobs": branch.logprobs,
        "reward": trace.reward,
        "rewards": {name: r and [r.score, r.weight] for name, r in trace.rewards.items()},
        "metrics": trace.metrics,
        "info": trace.info,
        "errors": [{"type": e.type, "message": e.message} for e in [*episode.errors, *trace.errors]],
        "turns": [trace.num_turns, len(trace.calls)],
        "finish": [call.finish_reason for call in trace.calls],
        "sampled": [call.usage.completion_tokens for call in trace.calls],
        "tokens": episode.num_total_tokens,
        "roles": [node.message.role for node in trace.nodes],
        "are_floats": all(type(value) is float for value in floats),
        "round_trips": type(episode).model_validate(episode.model_dump(mode="json")).traces[0].branches[0].token_ids == branch.token_ids,
    }


async def refusal(running):
    try:
        await running
    except RuntimeError as error:
        return str(error)


async def main(what, address, base_url, count, further):
    greedy = GREEDY.model_copy(update=json.loads(further))
    tasks = list(VfSearchTaskset(VfSearchTasksetConfig(address=address)))
    client = EnvClient(address)
    await client.wait_for_server_startup(10)

    def run(task, model="nano-base", config=TrainClientConfig, sampling=greedy, **changes):
        data = task.data.model_dump(mode="json") | changes
        return client.run(config(base_url=base_url, api_key_var="VLLM_API_KEY"), model, sampling, data)

    result = {"version": version("verifiers"), "total": len(tasks)}
    if what == "rows":
        result["episodes"] = [recorded(e) for e in await asyncio.gather(*(run(task) for task in tasks[: int(count)]))]
    elif what == "burst":
        running = asyncio.gather(*(run(tasks[i % len(tasks)], sampling=greedy.model_copy(update={"temperature": 1.0})) for i in range(int(count))))
        slowest, asked = 0.0, 0
        while not running.done():
            start = time.monotonic()
            assert await client.health(), "no answer to health within 2 s"
            slowest, asked = max(slowest, time.monotonic() - start), asked + 1
            await asyncio.sleep(0.02)
        episodes = await running
        result |= {"ok": sum(e.ok for e in episodes), "ids": len({e.id for e in episodes}), "slowest_health_s": slowest, "asked": asked}
    elif what == "cancel":
        running = asyncio.create_task(run(tasks[0], config=EvalClientConfig))
        await asyncio.sleep(2)
        result["is_running"] = not running.done()
        running.cancel()
        result["health"] = await client.health()
    elif what == "dead":
        result["episodes"] = [await run(tasks[0]), await run(tasks[1], config=EvalClientConfig)]
        result["episodes"] = [
            {
                "ok": [e.ok, e.traces[0].ok],
                "errors": [{"type": x.type, "message": x.message} for x in e.traces[0].errors],
                "rewards": e.traces[0].rewards,
                "metrics": e.traces[0].metrics,
                "key": e.traces[0].task.key,
            }
            for e in result["episodes"]
        ]
        result["refusals"] = [
            await refusal(run(tasks[0], example_id="no such row")),
            await refusal(run(tasks[0], sampling=SamplingConfig(stop=["x"]))),
            await refusal(client.run(TrainClientConfig(base_url="http://203.0.113.1/v1"), "m", greedy, tasks[0].data.model_dump(mode="json"))),
        ]
    await client.close()
    print(json.dumps(result))


asyncio.run(main(*sys.argv[1:]))
