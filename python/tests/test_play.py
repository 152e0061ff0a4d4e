"""Tests of `Environment.play` over a real server that has room for few episodes."""

import time
import unittest
from collections.abc import Callable
from typing import Any

import vf_search
from vf_search.branches import assert_one_sequence

from .test_environment import serve, shared, talk


def done_at(turn: int, sizes: list[int]) -> Callable[[list[Any]], list[Any]]:
    """Answers `done;` at that turn of each episode, and records the number of turns that were open together."""

    def sample(turns: list[Any]) -> list[Any]:
        sizes.append(len(turns))
        return [{"text": "done;" if each["turn"] == turn else "more;"} for each in turns]

    return sample


class BranchesTest(unittest.TestCase):
    def test_refuses_a_rollout_of_several_sequences_where_one_is_trained(self) -> None:
        assert_one_sequence({"rollout_id": "0/0"})
        with self.assertRaisesRegex(vf_search.VfSearchError, "0/0 consists of 3 sequences") as caught:
            assert_one_sequence({"rollout_id": "0/0", "branches": [{}, {}]})
        self.assertEqual(caught.exception.type, "BranchesError")


class PlayTest(unittest.TestCase):
    def test_plays_more_episodes_than_the_server_has_room_for_in_waves(self) -> None:
        sizes: list[int] = []
        env = shared(max_sessions=4)
        rollouts = env.play([place % 2 for place in range(10)], done_at(1, sizes), "chat")
        self.assertEqual(env._http.call("GET", "/health")["episodes"], 0)
        self.assertEqual([rollout["example_id"] for rollout in rollouts], [0, 1] * 5)
        self.assertEqual(sizes, [4, 4, 4, 4, 2, 2])

    def test_leaves_room_to_the_episodes_of_others(self) -> None:
        sizes: list[int] = []
        env = shared(max_sessions=4)
        others = env.episodes([0], "chat")
        env.play([0] * 5, done_at(0, sizes), "chat")
        others += env.episodes([0] * 3, "chat")
        with self.assertRaisesRegex(vf_search.VfSearchError, r"^4 of 4 episodes are open \(--max-sessions\).*again\.$") as full:
            env.play([0], done_at(0, sizes), "chat")
        self.assertEqual(full.exception.status, 503)
        for other in others:
            env.delete(other["episode_id"])
        self.assertEqual(sizes, [3, 2])

    def test_divides_no_group_between_waves(self) -> None:
        env = shared(max_sessions=4)
        requests = [{"example_id": 0, "group_id": name} for name in "aaabbbbc"]
        rollouts = env.play(requests, done_at(0, sizes := []), "chat")
        self.assertEqual(sizes, [3, 4, 1])
        self.assertEqual([rollout["reward"] for rollout in rollouts], [1 / 3] * 3 + [1 / 4] * 4 + [1])
        with self.assertRaisesRegex(vf_search.VfSearchError, "A group begins at once, and this one has 5 episodes: set --max-sessions to at least 5."):
            env.play([{"example_id": 0, "group_id": "d"}] * 5, done_at(0, []), "chat")

    def test_plays_more_episodes_than_one_request_takes(self) -> None:
        sizes: list[int] = []
        with serve(max_sessions=1500) as env:
            groups = [{"example_id": 0, "group_id": str(place // 5)} for place in range(2000)]
            began = time.monotonic()
            rollouts = env.play(groups, done_at(0, sizes), "chat")
            # A group whose members arrived in two requests would have waited for the step timeout, 50 s.
            self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(sizes, [1500, 500])
        self.assertEqual({rollout["reward"] for rollout in rollouts}, {1 / 5})

    def test_refuses_a_number_of_samples_that_is_not_that_of_the_turns(self) -> None:
        env = talk()
        with self.assertRaisesRegex(vf_search.VfSearchError, "^sample gave 1 samples for 2 turns."):
            env.play([0, 1], lambda turns: [{"text": "done;"}], "chat")
        self.assertEqual(env._http.call("GET", "/health")["episodes"], 0)


if __name__ == "__main__":
    unittest.main()
