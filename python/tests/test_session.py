"""Tests of `session` with a small server in the place of `vf-serve gateway`, whose own tests are in TypeScript."""

import http.server
import json
import threading
import unittest
from typing import Any

import vf_search


class Gateway(http.server.ThreadingHTTPServer):
    """Remembers requests and answers as `vf-serve gateway` does."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.deletes_with = 200
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                text = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(text) if text else None
                gateway.asked.append((self.command, self.path, body, self.headers.get("authorization")))
                status, answer = gateway.answer(self.command, self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_DELETE = do_GET

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/sessions":
            return 201, {"session_id": "s1", "model": "policy", "base_url": "http://x/s/1/v1", "api_key": "vf-1"}
        if method == "DELETE" and self.deletes_with != 200:
            return self.deletes_with, {"error": {"type": "NotFoundError", "message": "There is no session of this id."}}
        if path.endswith("/reward") and body["reward"] == 2:
            return 409, {"error": {"type": "ConflictError", "message": "The rollout failed."}}
        ended = path.endswith(("/end", "/reward"))
        rollout = {"reward": (body or {}).get("reward")} if ended else {"reward": None, "stop_condition": "open"}
        return 200, {"session_id": "s1", "status": "ended" if ended else "open", "rollout": rollout}

    def __exit__(self, *given: Any) -> None:
        self.shutdown()
        super().__exit__(*given)


class SessionTest(unittest.TestCase):
    def test_opens_rewards_and_deletes_a_session(self) -> None:
        with Gateway() as gateway:
            url = f"http://127.0.0.1:{gateway.server_port}/"
            with vf_search.session(url, api_key="secret", example_id="q1", max_turns=3) as session:
                self.assertEqual((session.model, session.base_url, session.api_key), ("policy", "http://x/s/1/v1", "vf-1"))
                self.assertEqual(session.environment["ANTHROPIC_BASE_URL"], session.base_url)
                self.assertTrue(session.is_open)
                self.assertEqual(session.rollout, {"reward": None, "stop_condition": "open"})
                self.assertEqual(session.end(), {"reward": None})
                self.assertEqual(session.reward(0.5), {"reward": 0.5})
                with self.assertRaisesRegex(vf_search.VfSearchError, "The rollout failed"):
                    session.reward(2)
            self.assertEqual([f"{method} {path}" for method, path, _, _ in gateway.asked][-1], "DELETE /sessions/s1")
            self.assertEqual(gateway.asked[0][2:], ({"example_id": "q1", "max_turns": 3}, "Bearer secret"))

    def test_keeps_what_its_block_raised_and_takes_a_session_that_is_forgotten_for_deleted(self) -> None:
        with Gateway() as gateway:
            url = f"http://127.0.0.1:{gateway.server_port}"
            gateway.deletes_with = 404
            with vf_search.session(url):
                pass
            gateway.deletes_with = 500
            with self.assertRaisesRegex(KeyError, "mine"), vf_search.session(url):
                raise KeyError("mine")
            with self.assertRaises(vf_search.VfSearchError), vf_search.session(url):
                pass
        with self.assertRaises(vf_search.ServerLostError):
            vf_search.session(url)
