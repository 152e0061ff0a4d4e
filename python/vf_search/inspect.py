"""
Environments as tasks of Inspect AI, whose model plays them by messages. Prompts, observations, rewards and metrics come from `vf-serve environment`.

    inspect eval vf_search/environment -T env=search-r1 --model openai-api/vllm/NAME --model-base-url http://127.0.0.1:8000/v1
"""

from typing import Any, Literal

from anyio.to_thread import run_sync
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.model._model import use_model_event_sink
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo

from . import Environment, VfSearchError
from .inspect_messages import Answer, chat
from .servers import Servers

_SERVERS = Servers()


@task
def environment(
    env: str = "search-r1", args: dict[str, Any] | None = None, split: Literal["train", "eval"] = "eval", url: str | None = None, api_key_var: str | None = None
) -> Task:
    """`env` with its arguments, in a server that ends with this process, or the environment that is served at `url`, whose key is in `api_key_var`."""
    served = _SERVERS.open(env, args, split, url=url, api_key_var=api_key_var)
    rows = [Sample(id=row["example_id"], input=chat(row["prompt"]), target=row["answer"] or "", metadata=row["info"]) for row in served.tasks()]
    return Task(dataset=MemoryDataset(rows, name=url or env), solver=play(served), scorer=rollout(served))


@solver
def play(served: Environment) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        turn = (await run_sync(lambda: served.episodes([state.sample_id], "chat")))[0]
        while not turn.get("done"):
            if "error" not in turn:
                entry = {"episode_id": turn["episode_id"], "turn": turn["turn"], **await _sample(state, turn)}
            elif turn["error"]["retryable"]:
                entry = {"episode_id": turn["episode_id"]}
            else:
                raise VfSearchError(turn["error"]["message"], type=turn["error"]["type"])
            turn = (await run_sync(lambda: served.step([entry])))[0]
        played = turn["rollout"]
        state.messages = chat(played.pop("messages"))
        state.store.set("rollout", played)
        if played["error"] is not None:
            raise VfSearchError(f"{played['error']['type']}: {played['error']['message']}", type=played["error"]["type"])
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def rollout(served: Environment) -> Scorer:
    names = served.metrics

    async def score(state: TaskState, target: Target) -> Score:
        played = state.store.get("rollout")
        values = {name: played["metrics"].get(name, float("nan")) for name in names}  # Inspect leaves NaN out of its means.
        return Score(value={**values, "reward": played["reward"]}, metadata={key: played[key] for key in ("stop_condition", "is_truncated", "num_turns", "turn_rewards") if key in played})

    return score


async def _sample(state: TaskState, turn: dict[str, Any]) -> dict[str, str]:
    config = GenerateConfig(stop_seqs=turn["stop"] or None, max_tokens=turn["max_new_tokens"])
    with use_model_event_sink(heard := Answer()):
        state.output = await get_model().generate(chat(turn["messages"]), [ToolInfo(**tool) for tool in turn.get("tools", [])], config=config, cache=False)
    if state.output.stop_reason in ("model_length", "content_filter"):  # Its text is the refusal.
        raise VfSearchError(f"The model gave no sample ({state.output.stop_reason}): {state.output.completion}")
    return {"text": heard.text(state.output, turn["stop"]), "finish_reason": "length" if state.output.stop_reason == "max_tokens" else "stop"}
