"""What OpenEnv's GenericEnvClient raises for each error of `vf-serve environment`, and that its sessions live on. Runs with openenv and openenv-core.

argv: URL of an environment with two sessions at most and a short step timeout, whose episodes fail at "fail" and never answer "slow"; URL of one whose
role is bound to the policy.
"""
import asyncio
import importlib.metadata
import json
import sys

from openenv.core import GenericEnvClient

url, unplayable_url = sys.argv[1:3]


async def raised(call):
    try:
        await call
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


async def raw(env, frame):
    """Sends a frame that the client itself would not send."""
    await env._ensure_connected()
    await env._ws.send(frame)
    return json.loads(await env._ws.recv())["data"]["code"]


async def ask():
    errors = {}
    async with GenericEnvClient(base_url=url) as env:
        errors["no reset"] = await raised(env.step({"text": "hi;"}))
        errors["row"] = await raised(env.reset(example_id="nobody"))
        await env.reset(example_id="row-0")
        errors["action"] = await raised(env.step({"words": "hi;"}))
        codes = {
            "json": await raw(env, "{"),
            "binary": await raw(env, b"{}"),
            "type": await raw(env, '{"type": "render"}'),
            "mcp": await raw(env, '{"type": "mcp", "data": {}}'),
        }
        first = await env.step({"text": 42})
        last = await env.step({"text": "done;"})
        errors["after the end"] = await raised(env.step({"text": "more;"}))
        await env.reset()
        errors["failed"] = await raised(env.step({"text": "fail;"}))
        await env.reset()
        errors["slow"] = await raised(env.step({"text": "slow;"}))
        state = await env.state()
        again = await env.reset(seed=5)
        async with GenericEnvClient(base_url=url) as other:
            await other.reset()
            full = GenericEnvClient(base_url=url)
            errors["full"] = await raised(full.reset())
            await full.close()
        async with GenericEnvClient(base_url=url) as after:
            last_place = await after.reset()
    async with GenericEnvClient(base_url=unplayable_url) as env:
        errors["role"] = await raised(env.reset())
    name = sys.argv[3]
    return {
        "version": importlib.metadata.version(name),
        "errors": errors,
        "codes": codes,
        "number": first.observation["text"],
        "rewards": [first.reward, last.reward],
        "done": last.done,
        "state": state,
        "again": again.observation["prompt"][0]["content"],
        "place": last_place.done,
    }


print(json.dumps(asyncio.run(ask())))
