"""The states of rollouts that the environment of `load_environment` gives, with their tokens.

argv: the repository, environment's arguments as JSON, URL of the model, number of rows.
"""
import asyncio
import json
import os
import sys

root, args, url, count = sys.argv[1:]
os.chdir(root)
sys.path.insert(0, os.path.join(root, "python"))
os.environ["NAMED_API_KEY"] = os.environ["PRIME_API_KEY"] = "sesame"
import verifiers as vf
from vf_search.verifiers_v0 import _key
from verifiers.clients import resolve_client
from verifiers.types import ClientConfig

env = vf.load_environment("vf-search", **json.loads(args))
client = resolve_client(ClientConfig(api_base_url=url, api_key_var="NOT_SET_API_KEY"))
inputs = env.get_eval_dataset(n=int(count)).to_list()


async def play():
    return await asyncio.gather(*(env._run_group_states([row, row], client, "nano-base", {"temperature": 0.0, "n": 1, "extra_body": {}}) for row in inputs))


states = [state for group in asyncio.run(play()) for state in group]
prime = "https://api.pinference.ai/api/v1"
print(
    json.dumps(
        {
            "states": [
                {
                    "example_id": state["info"]["example_id"],
                    "reward": state["reward"],
                    "advantage": state["advantage"],
                    "steps": [step["tokens"] for step in state["trajectory"]],
                    "rewards": [step["reward"] for step in state["trajectory"]],
                    "extras": [step["extras"] for step in state["trajectory"]],
                }
                for state in states
            ],
            "keys": [
                _key(ClientConfig(api_base_url=base_url, api_key_var=name))
                for base_url, name in [(url, "NOT_SET_API_KEY"), (url, "NAMED_API_KEY"), (url, "PRIME_API_KEY"), (prime, "PRIME_API_KEY")]
            ],
        }
    )
)
asyncio.run(env.close())
