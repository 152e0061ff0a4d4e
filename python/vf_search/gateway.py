"""A rollout that an agent plays through `vf-serve gateway`, in whatever language and with whatever client it asks the policy."""

from types import TracebackType
from typing import Any, Self

from .errors import VfSearchError
from .http import HttpClient

Json = dict[str, Any]


class Session:
    """Made by `session`. Leaving its `with` block ends it and forgets it at the server, so read `rollout` before, or keep what `reward` returns."""

    def __init__(self, url: str, api_key: str | None = None, **request: Any) -> None:
        self._http = HttpClient(url.rstrip("/"), api_key, None)
        try:
            opened: Json = self._http.call("POST", "/sessions", request)
        except BaseException:
            self._http.close()
            raise
        self.id: str = opened["session_id"]
        self.model: str = opened["model"]
        self.base_url: str = opened["base_url"]
        """For OPENAI_BASE_URL or ANTHROPIC_BASE_URL of the agent."""
        self.api_key: str = opened["api_key"]
        """Of the agent, for this session alone."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point the clients of OpenAI and Anthropic to this session: `subprocess.run(..., env=os.environ | session.environment)`."""
        return {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": self.api_key,
            "ANTHROPIC_BASE_URL": self.base_url,
            "ANTHROPIC_API_KEY": self.api_key,
        }

    @property
    def is_open(self) -> bool:
        """True while the agent may ask."""
        return bool(self._http.call("GET", f"/sessions/{self.id}", may_repeat=True)["status"] == "open")

    @property
    def rollout(self) -> Json | None:
        """What was played, as a line of `vf-export`; until now if the session is open, with the `stop_condition` "open"."""
        rollout: Json | None = self._http.call("GET", f"/sessions/{self.id}", may_repeat=True)["rollout"]
        return rollout

    def end(self) -> Json:
        """Answers the agent no longer, and returns the rollout, whose reward is None."""
        rollout: Json = self._http.call("POST", f"/sessions/{self.id}/end", may_repeat=True)["rollout"]
        return rollout

    def reward(self, reward: float) -> Json:
        """Ends the session, says what it was worth, and returns the rollout. Raises VfSearchError for one that failed, which has no reward."""
        rollout: Json = self._http.call("POST", f"/sessions/{self.id}/reward", {"reward": reward}, may_repeat=True)["rollout"]
        return rollout

    def delete(self) -> None:
        """Ends it at once; the server forgets it. Does nothing if the server has forgotten it."""
        try:
            self._http.call("DELETE", f"/sessions/{self.id}", may_repeat=True)
        except VfSearchError as error:
            if error.status != 404:
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.delete()
        except VfSearchError:
            # What the block raised says more than a server that is gone.
            if error is None:
                raise
        finally:
            self._http.close()


def session(url: str, *, api_key: str | None = None, **request: Any) -> Session:
    """
    Opens a session at the address that `vf-serve gateway` printed. `request`: `example_id`, `group_id`, `sampling`, `override_sampling`, `max_turns`,
    `max_completion_tokens` and `timeout` in seconds, as docs/gateway.md describes them.

        with vf_search.session("http://127.0.0.1:8000", example_id="q1") as session:
            answer = run_my_agent(base_url=session.base_url, api_key=session.api_key)
            rollout = session.reward(float(answer == "grey"))
    """
    return Session(url, api_key, **request)
