"""An environment that `vf-serve environment` serves: its rows, its episodes, its rollouts. Prompts, cuts, masks and rewards are the server's."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby
from types import TracebackType
from typing import Any, Literal, Self

from .child import Child, serve_arguments
from .errors import ServerLostError, VfSearchError
from .http import HttpClient
from .waves import MOST_EPISODES, first_request, neighbours, whole_requests

Kind = Literal["tokens", "chat"]
Json = dict[str, Any]
Sample = Callable[[list[Json]], Iterable[Json]]
"""Takes open turns and returns a sample for each: `{"token_ids", "logprobs", "finish_reason"}` or `{"text", "finish_reason"}`."""

_PAGE = 1000
_RETRYABLE = ("GroupPendingError", "StepTimeoutError")


class Environment:
    """Made by `serve` or `connect`. Its methods may be called from several threads."""

    def __init__(self, url: str, api_key: str | None = None, child: Child | None = None) -> None:
        self.url = url.rstrip("/")
        self._child = child
        self._http = HttpClient(self.url, api_key, child)

    @cached_property
    def metrics(self) -> list[str]:
        """Names of the rewards and metrics that every scored rollout has."""
        names: list[str] = self._http.call("GET", "/v1/tasks?limit=0", may_repeat=True)["metrics"]
        return names

    @property
    def has_ended(self) -> bool:
        """True if the server that `serve` started is gone. Whether a server at an address is gone shows only in calls."""
        return self._child is not None and self._child.has_ended

    def tasks(self) -> list[Json]:
        """All rows of the split: `{"example_id", "prompt": [messages], "answer", "info"}`. They are downloaded once, so do not change them."""
        return list(self._tasks)

    @cached_property
    def _tasks(self) -> list[Json]:
        rows: list[Json] = []
        while True:
            page = self._http.call("GET", f"/v1/tasks?offset={len(rows)}&limit={_PAGE}", may_repeat=True)
            rows += page["tasks"]
            if len(rows) >= page["total"] or not page["tasks"]:
                return rows

    def episodes(self, requests: Sequence[Json | str | int], kind: Kind = "tokens", *, sampling: Json | None = None, max_new_tokens: int | None = None, **policy: Any) -> list[Json]:
        """
        Begins an episode for each request, an example id or `{"example_id", "group_id"}`, and returns the first turn of each.

        `policy`: `model` and `version` for the record, `max_model_len`, the window of the caller's model. A turn of kind "tokens" has `append_ids`: the ids
        to put after the context of the turn before, which then has `context_length` ids.
        """
        common = _common(kind, policy, sampling=sampling, max_new_tokens=max_new_tokens)
        return self._begin(neighbours(requests), common, in_part=False)[0]

    def step(self, samples: Sequence[Json]) -> list[Json]:
        """
        Sends a sample for a turn of each episode: `{"episode_id", "turn", "token_ids", "logprobs", "finish_reason"}` or `{..., "text"}`. Returns, in order, the
        next turn, the end `{"done": True, "rollout"}`, or `{"error"}` for an entry that is refused. The same sample again gets the same answer.
        Where the environment said what the turn was worth by itself, the answer has it as `turn_reward`, and the rollout has those of all turns as `turn_rewards`.

        An error that is `retryable` says that the answer is not there yet: send `{"episode_id"}` alone to wait for it. A request takes 1,024 samples; the end of
        an episode that is scored with others waits for theirs until the step timeout, if they come in a later request.
        """
        answers: list[Json] = []
        for start in range(0, len(samples), MOST_EPISODES):
            batch = [_finite(sample) for sample in samples[start : start + MOST_EPISODES]]
            answers += self._http.call("POST", "/v1/episodes/step", {"episodes": batch}, may_repeat=True)["episodes"]
        return answers

    def play(
        self,
        requests: Sequence[Json | str | int],
        sample: Sample,
        kind: Kind = "tokens",
        *,
        sampling: Json | None = None,
        max_new_tokens: int | None = None,
        **policy: Any,
    ) -> list[Json]:
        """
        Plays episodes to their ends and returns their rollouts in order. `sample` is called with all open turns at once; a turn of kind "tokens" has the whole
        context as `context_ids`. The other arguments are those of `episodes`. Raises VfSearchError if a sample is refused.

        Episodes for which the server has no room begin when earlier ones have ended. Requests with the same `group_id` that follow each other stay together.
        """
        groups, rollouts = neighbours(requests), list[Json]()
        common = _common(kind, policy, sampling=sampling, max_new_tokens=max_new_tokens)
        while groups:
            turns, begun = self._begin(groups, common, in_part=True)
            rollouts += self._finish(turns, groups[:begun], sample)
            groups = groups[begun:]
        return rollouts

    def _begin(self, groups: Sequence[list[Json]], common: Json, *, in_part: bool) -> tuple[list[Json], int]:
        """The first turns of all groups, or, with `in_part`, of as many as have room at the server; and the number of these groups."""
        turns: list[Json] = []
        begun, most = 0, len(groups)
        try:
            while begun < len(groups):
                batch = first_request(groups[begun : begun + most])
                try:
                    turns += self._http.call("POST", "/v1/episodes", common | {"episodes": list(chain(*batch))})["episodes"]
                    begun += len(batch)
                except VfSearchError as error:
                    if error.status != 503 or not in_part:
                        raise
                    # The server also counts the episodes of other callers, so only an attempt shows how many it accepts.
                    if len(batch) == 1 and begun == 0:
                        raise _no_room(error, len(batch[0])) from None
                    if len(batch) == 1:
                        break
                    most = len(batch) // 2
        except BaseException:
            self._abandon(turn["episode_id"] for turn in turns)
            raise
        return turns, begun

    def _finish(self, turns: list[Json], groups: Sequence[list[Json]], sample: Sample) -> list[Json]:
        """Plays the episodes of groups from their first turns to their ends."""
        order: list[str] = [turn["episode_id"] for turn in turns]
        places = {episode_id: place for place, episode_id in enumerate(order)}
        numbers = [number for number, group in enumerate(groups) for _ in group]
        rollouts: dict[str, Json] = {}
        contexts: dict[str, list[int]] = {}
        try:
            while turns:
                open_turns, waiting = self._take(turns, rollouts, contexts)
                samples = list(sample(open_turns)) if open_turns else []
                if len(samples) != len(open_turns):
                    raise VfSearchError(f"sample gave {len(samples)} samples for {len(open_turns)} turns. Give one for each, in order.")
                given = [{"episode_id": turn["episode_id"], "turn": turn["turn"], **taken} for turn, taken in zip(open_turns, samples)]
                entries = [*given, *({"episode_id": episode_id} for episode_id in waiting)]
                # A request contains all members of a group, because the end of one may wait for the others.
                entries.sort(key=lambda entry: places[entry["episode_id"]])
                members = [list(same) for _, same in groupby(entries, lambda entry: numbers[places[entry["episode_id"]]])]
                turns = [answer for batch in whole_requests(members) for answer in self.step(batch)]
        except BaseException:
            self._abandon(episode_id for episode_id in order if episode_id not in rollouts)
            raise
        return [rollouts[episode_id] for episode_id in order]

    def rollouts(
        self,
        example_ids: Sequence[str | int],
        policy: Json,
        *,
        rollouts_per_example: int = 1,
        sampling: Json | None = None,
        max_concurrent: int | None = None,
        request_id: str | None = None,
        messages: bool = False,
    ) -> Iterator[Json]:
        """
        Rollouts against a policy server, `{"base_url", "model", "api_key_var", "version", "kind"}`, as they end. Closing the iterator cancels the others;
        the same `request_id` again gives the lines of the first request and goes on.
        """
        body: Json = {"example_ids": list(example_ids), "policy": policy, "rollouts_per_example": rollouts_per_example, "messages": messages}
        more = {"sampling": sampling, "max_concurrent": max_concurrent, "request_id": request_id}
        for line in self._http.lines("/v1/rollouts", body | {key: value for key, value in more.items() if value is not None}):
            if line.get("done") is True:
                return
            yield line
        if self._child is not None and self.has_ended:
            raise self._child.lost()
        raise ServerLostError("The stream of rollouts ended before its last line, so some are missing. Ask again with the same request_id.")

    def delete(self, episode_id: str) -> None:
        """Ends an episode without a rollout."""
        self._http.call("DELETE", f"/v1/episodes/{episode_id}")

    def close(self) -> None:
        """Closes connections, and ends the server if `serve` started it. Safe to call twice."""
        self._http.close()
        if self._child is not None:
            self._child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _take(self, turns: list[Json], rollouts: dict[str, Json], contexts: dict[str, list[int]]) -> tuple[list[Json], list[str]]:
        """Keeps the rollouts that have ended. Returns the open turns, with their contexts, and the episodes whose answers are not ready yet."""
        open_turns: list[Json] = []
        waiting: list[str] = []
        for turn in turns:
            episode_id, error = turn["episode_id"], turn.get("error")
            if error is not None:
                if error["type"] not in _RETRYABLE:
                    raise VfSearchError(error["message"], type=error["type"])
                waiting.append(episode_id)
            elif turn["done"]:
                rollouts[episode_id] = turn["rollout"]
            else:
                if "append_ids" in turn:
                    kept = turn["context_length"] - len(turn["append_ids"])
                    turn["context_ids"] = contexts[episode_id] = contexts.get(episode_id, [])[:kept] + turn["append_ids"]
                open_turns.append(turn)
        return open_turns, waiting

    def _abandon(self, episode_ids: Iterable[str]) -> None:
        for episode_id in episode_ids:
            try:
                self.delete(episode_id)
            except VfSearchError:
                return


def serve(
    env_id: str,
    args: Mapping[str, Any] | None = None,
    split: Literal["train", "eval"] = "eval",
    tokenizer: str | None = None,
    roles: Mapping[str, str] | None = None,
    # --no: never install the registry's package of that name; --offline: do not even ask the registry.
    command: Sequence[str] = ("npx", "--no", "--offline", "vf-serve"),
    cwd: str | None = None,
    **options: Any,
) -> Environment:
    """
    Serves an environment in a child process, which ends with this one. `tokenizer`: the folder of the model that plays by token ids. `roles`: models other than the
    policy, `{"judge": "gpt-4.1-mini@https://api.openai.com/v1"}`. `options`: further flags, `max_sessions=64`. Raises VfSearchError for arguments that the
    server refuses, and ServerLostError if it does not start.

    >>> with serve("search-r1", {"dataset": "fact-world", "corpus": "fact-world"}) as env:
    ...     print(env.tasks()[0]["prompt"])
    """
    child = Child([*command, *serve_arguments(env_id, args or {}, split, tokenizer, roles or {}, options)], cwd)
    return Environment(child.address, child=child)


def connect(url: str, api_key: str | None = None) -> Environment:
    """The environment of a running `vf-serve environment`."""
    return Environment(url, api_key)


def _finite(sample: Json) -> Json:
    """JSON has no NaN. The server fails the rollout of a log-prob that is null."""
    logprobs = sample.get("logprobs")
    if logprobs is None or all(map(math.isfinite, logprobs)):
        return sample
    return sample | {"logprobs": [value if math.isfinite(value) else None for value in logprobs]}


def _common(kind: Kind, policy: Json, **settings: Any) -> Json:
    """The settings of all episodes of a call. A setting that is None is the server's."""
    return {"policy": {"kind": kind, **policy}} | {name: value for name, value in settings.items() if value is not None}


def _no_room(error: VfSearchError, size: int) -> VfSearchError:
    need = f"{error} A group begins at once, and this one has {size} episodes: set --max-sessions to at least {size}." if size > 1 else str(error)
    return VfSearchError(need, type=error.type, status=error.status)
