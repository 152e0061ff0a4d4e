"""Tests of the package over a real server. `VF_SERVE` is its command as JSON, `VF_ROOT` the folder to run it in."""

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import vf_search

COMMAND = json.loads(os.environ["VF_SERVE"])
ROOT = os.environ["VF_ROOT"]
TALK = os.path.join(os.path.dirname(__file__), "talk_env.ts")
WORLD = {"dataset": "fact-world", "corpus": "fact-world"}


def serve(env_id: str = TALK, **options: object) -> vf_search.Environment:
    return vf_search.serve(env_id, command=COMMAND, cwd=ROOT, **options)  # type: ignore[arg-type]


@functools.cache
def shared(**options: object) -> vf_search.Environment:
    """One server for all tests that leave it as it was: running, and without an episode."""
    env = serve(**options)  # type: ignore[arg-type]
    atexit.register(env.close)
    return env


def talk() -> vf_search.Environment:
    return shared(tokenizer="nano-base")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed process that nobody waited for is still listed.
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(") ", 1)[1][0] != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


class EnvironmentTest(unittest.TestCase):
    def test_plays_groups_whose_members_end_at_different_turns(self) -> None:
        said = iter([["done;", "more;"], ["done;"]])
        requests = [{"example_id": 0, "group_id": "g"}] * 2
        rollouts = talk().play(requests, lambda turns: [{"text": text, "finish_reason": "stop"} for text in next(said)], "chat")
        self.assertEqual([rollout["reward"] for rollout in rollouts], [1 / 3, 2 / 3])

    def test_gives_rows_metrics_and_refusals_as_the_server_does(self) -> None:
        with serve("search-r1", args=WORLD, split="train") as env:
            self.assertEqual(len(env.tasks()), 1440)
            self.assertIs(env.tasks()[0], env.tasks()[0])  # They are downloaded once.
            self.assertIn("em", env.metrics)
            with self.assertRaises(vf_search.VfSearchError) as refused:
                env.episodes(["nobody"], "chat")
            self.assertEqual((refused.exception.status, refused.exception.type), (422, "ValidationError"))
            with self.assertRaisesRegex(vf_search.VfSearchError, "no tokenizer.*--tokenizer DIR"):
                env.episodes([env.tasks()[0]["example_id"]])
        with self.assertRaisesRegex(vf_search.VfSearchError, "closed"):
            env.episodes([0])

    def test_says_why_a_server_does_not_start(self) -> None:
        for options, line in [({"env_id": "nobody"}, '^vf-serve: The environment "nobody" is unknown'), ({"max_session": 4}, r"^vf-serve: Unknown flag --max-session .*$")]:
            with self.assertRaisesRegex(vf_search.VfSearchError, line) as refused:
                serve(**options)  # type: ignore[arg-type]
            self.assertNotIsInstance(refused.exception, vf_search.ServerLostError)
        with self.assertRaisesRegex(vf_search.ServerLostError, "ended with exit code 3. It said: oh"):
            vf_search.serve("search-r1", command=[sys.executable, "-c", "import sys; sys.stderr.write('oh'); sys.exit(3)"])
        with self.assertRaisesRegex(vf_search.ServerLostError, "could not be started"):
            vf_search.serve("search-r1", command=["/nowhere/vf-serve"])

    @unittest.skipUnless(shutil.which("npx"), "needs npx")
    def test_says_what_to_install_where_npx_finds_no_vf_serve(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(vf_search.ServerLostError) as lost:
                vf_search.serve("search-r1", cwd=folder)
        self.assertEqual(str(lost.exception), f"vf-search is not installed in {folder}. Install it there from a clone of it (npm install CLONE), or pass cwd=FOLDER or command=[...].")

    def test_fails_a_call_in_flight_and_every_later_one_when_the_server_is_killed(self) -> None:
        env = serve()
        assert env._child is not None
        [turn] = env.episodes([0], "chat")
        threading.Timer(0.5, os.kill, (env._child.pid, signal.SIGKILL)).start()
        began = time.monotonic()
        with self.assertRaisesRegex(vf_search.ServerLostError, "killed by signal 9.*serving talk"):
            env.step([{"episode_id": turn["episode_id"], "turn": 0, "text": "wait;"}])
        self.assertLess(time.monotonic() - began, 5)
        with self.assertRaises(vf_search.ServerLostError):
            env.tasks()
        env.close()

    def test_ends_the_server_with_a_parent_that_is_killed(self) -> None:
        code = f"import vf_search, time\nenv = vf_search.serve({TALK!r}, command={COMMAND!r}, cwd={ROOT!r})\nprint(env._child.pid, flush=True)\ntime.sleep(60)"
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        with parent.stdout as stdout:
            child = int(stdout.readline())
        self.assertTrue(is_alive(child))
        parent.kill()
        parent.wait()
        self.assertTrue(gone_within(child, 2))

    def test_takes_a_step_once_over_a_connection_that_was_lost(self) -> None:
        env = talk()
        [turn] = env.episodes([0], "chat")
        connection = env._http._connection()
        assert connection.sock is not None
        connection.sock.shutdown(socket.SHUT_RDWR)
        [following] = env.step([{"episode_id": turn["episode_id"], "turn": 0, "text": "more;"}])
        self.assertEqual(following["turn"], 1)
        env.delete(turn["episode_id"])

    def test_raises_for_a_sample_that_is_refused_and_leaves_no_episode_behind(self) -> None:
        env = talk()
        with self.assertRaisesRegex(vf_search.VfSearchError, "token_ids has 2 entries and logprobs has 1"):
            env.play([0, 1], lambda turns: [{"token_ids": [1, 2], "logprobs": [-1.0], "finish_reason": "stop"} for _ in turns])
        self.assertEqual(env._http.call("GET", "/health")["episodes"], 0)

    def test_fails_the_rollout_of_a_log_prob_that_is_not_finite(self) -> None:
        [rollout] = talk().play([0], lambda turns: [{"token_ids": [5], "logprobs": [float("nan")], "finish_reason": "stop"} for _ in turns])
        self.assertEqual((rollout["reward"], rollout["error"]["type"]), (None, "NumericPolicyError"))


if __name__ == "__main__":
    unittest.main()
