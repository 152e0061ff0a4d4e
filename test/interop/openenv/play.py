"""OpenEnv's GenericEnvClient plays rows of `vf-serve environment` with the words of a chat server, greedily: with one async client, with one sync
client, or with many async clients at once.

argv: URL of the environment, URL of the chat server, model, "async", "sync" or a number of clients, ids of the rows as JSON, name of the package.
"""
import asyncio
import importlib.metadata
import json
import sys
import urllib.request

from openenv.core import GenericEnvClient

env_url, chat_url, model, how, row_ids, package = sys.argv[1:7]
rows = json.loads(row_ids)


def sample(messages, stop, max_tokens):
    """What the model says, with the stop string that a chat server leaves out, as an action."""
    body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": max_tokens, "stop": stop}
    request = urllib.request.Request(f"{chat_url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        choice = json.load(response)["choices"][0]
    text, finish, reason = choice["message"]["content"], choice["finish_reason"], choice.get("stop_reason")
    if finish == "stop" and isinstance(reason, str):
        text += reason
    return {"text": text, "metadata": {"finish_reason": finish}}


class Play:
    """One episode: the action for each result, until the end."""

    def __init__(self, first):
        self.messages = list(first.observation["prompt"])
        self.prompt_length = len(self.messages)
        self.result = first

    def action(self):
        # openenv-core shows no metadata.
        metadata = getattr(self.result, "metadata", {"max_new_tokens": 500})
        return sample(self.messages, self.result.observation["stop"], metadata["max_new_tokens"])

    def take(self, action, result):
        # As the environment has it, for openenv-core, which shows no metadata, as the model said it.
        kept = getattr(result, "metadata", {"kept": action["text"]})["kept"]
        self.messages.append({"role": "assistant", "content": kept})
        if result.observation["text"]:
            self.messages.append({"role": "user", "content": result.observation["text"]})
        self.result = result

    def record(self, row, state):
        observation = self.result.observation
        return {
            "example_id": row,
            "reward": self.result.reward,
            "metrics": observation["metrics"],
            "stop_condition": observation["stop_condition"],
            "completion": self.messages[self.prompt_length :],
            "state": state,
        }


async def play_async(env, row):
    play = Play(await env.reset(example_id=row, episode_id=f"play of {row}"))
    while not play.result.done:
        action = await asyncio.to_thread(play.action)
        play.take(action, await env.step(action))
    return play.record(row, await env.state())


async def play_all(share):
    async with GenericEnvClient(base_url=env_url) as env:
        return [await play_async(env, row) for row in share]


def play_sync():
    records = []
    with GenericEnvClient(base_url=env_url).sync() as env:
        for row in rows:
            play = Play(env.reset(example_id=row, episode_id=f"play of {row}"))
            while not play.result.done:
                action = play.action()
                play.take(action, env.step(action))
            records.append(play.record(row, env.state()))
    return records


async def play_at_once(count):
    shares = await asyncio.gather(*[play_all(rows[i::count]) for i in range(count)])
    return sorted((record for share in shares for record in share), key=lambda record: rows.index(record["example_id"]))


records = play_sync() if how == "sync" else asyncio.run(play_all(rows) if how == "async" else play_at_once(int(how)))
print(json.dumps({"version": importlib.metadata.version(package), "episodes": records}))
