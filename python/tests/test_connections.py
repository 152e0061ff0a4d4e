"""Tests of the client with a server whose connections end. A small server here replaces the real one, with which
the tests would take minutes."""

import http.server
import json
import socket
import threading
import unittest
from collections.abc import Callable
from typing import Any

import vf_search

from .test_environment import serve


class Peer(http.server.ThreadingHTTPServer):
    """Answers each request with the result of `answer(path, body)`, and then does `after` with the connection."""

    def __init__(self, answer: Callable[[str, Any], Any], after: Callable[[socket.socket], None] = lambda _: None) -> None:
        self.paths: list[str] = []
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                peer.paths.append(self.path)
                text = self.rfile.read(int(self.headers.get("content-length", 0)))
                data = answer(self.path, json.loads(text) if text else None)
                if data is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                after(self.connection)

            do_POST = do_GET

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *given: Any) -> None:
        self.shutdown()
        super().__exit__(*given)

    def connect(self) -> vf_search.Environment:
        return vf_search.connect(f"http://127.0.0.1:{self.server_port}")


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


class ConnectionsTest(unittest.TestCase):
    def test_begins_episodes_after_the_server_closed_an_idle_connection(self) -> None:
        with Peer(lambda *_: b'{"tasks": [], "total": 0, "metrics": [], "episodes": []}', hang_up) as peer, peer.connect() as env:
            for _ in range(3):
                env._http.call("GET", "/health", may_repeat=True)
                self.assertEqual(env.episodes([0], "chat"), [])

    def test_repeats_a_step_whose_answer_was_lost_and_not_the_beginning_of_episodes(self) -> None:
        steps: list[Any] = []

        def answer(path: str, body: Any) -> bytes | None:
            steps.append(body)
            return None if len(steps) == 1 else b'{"episodes": [{"episode_id": "a", "turn": 1, "done": false}]}'

        sample = {"episode_id": "a", "turn": 0, "text": "hello"}
        with Peer(answer) as peer, peer.connect() as env:
            self.assertEqual(env.step([sample])[0]["turn"], 1)
            self.assertEqual(steps, [{"episodes": [sample]}] * 2)
            steps.clear()
            with self.assertRaisesRegex(vf_search.ServerLostError, "does not answer"):
                env.episodes([0], "chat")
            self.assertEqual(len(steps), 1)

    def test_raises_for_a_stream_of_rollouts_without_its_last_line(self) -> None:
        line = b'{"rollout_id": "a/0"}\n'
        end = b'{"done": true, "finished": 1, "failed": 0}\n'
        policy = {"base_url": "http://127.0.0.1:9/v1"}
        with Peer(lambda *_: line + end) as peer, peer.connect() as env:
            self.assertEqual(list(env.rollouts(["a"], policy)), [{"rollout_id": "a/0"}])
        with Peer(lambda *_: line) as peer, peer.connect() as env:
            stream = env.rollouts(["a"], policy)
            self.assertEqual(next(stream), {"rollout_id": "a/0"})
            with self.assertRaisesRegex(vf_search.ServerLostError, "before its last line"):
                next(stream)

    def test_ends_the_episodes_that_began_where_not_all_could_begin(self) -> None:
        with serve(verbose=True, max_sessions=1000) as env:
            with self.assertRaisesRegex(vf_search.VfSearchError, "--max-sessions"):
                env.episodes([0] * 1500, "chat")
            self.assertEqual(env._http.call("GET", "/health")["episodes"], 0)

    def test_waits_for_an_environment_that_is_slower_than_the_step_timeout(self) -> None:
        with serve(step_timeout=1) as env:
            said = iter(["pause;", "done;"])
            [rollout] = env.play([0], lambda turns: [{"text": next(said)} for _ in turns], "chat")
        self.assertEqual(rollout["num_turns"], 2)


if __name__ == "__main__":
    unittest.main()
