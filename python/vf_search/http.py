"""JSON over HTTP, on a connection of each thread's own."""

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from .child import Child
from .errors import ServerLostError, VfSearchError

# Longer than any wait of the server, which answers within its own step timeout.
TIMEOUT_SECONDS = 600.0


class HttpClient:
    """Requests to one server. `child`: its process, if this process started it, so that an error shows its last output."""

    def __init__(self, url: str, api_key: str | None, child: Child | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise VfSearchError(f"The URL {url!r} does not begin with http:// or https://.")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {api_key}"} if api_key else {})
        self._child = child
        self._local = threading.local()
        self._is_closed = False

    def call(self, method: str, path: str, body: object = None, *, may_repeat: bool = False) -> Any:
        """The answer to a request. `may_repeat`: a second such request has no second effect, so it is sent again after a lost connection."""
        if self._is_closed:
            raise VfSearchError("The connection is closed. Open it again.")
        if not may_repeat:
            self._drop()  # The server may just be closing an idle connection, and whether it took the request would stay unknown.
        attempts = 3 if may_repeat else 1
        for attempt in range(1, attempts + 1):
            connection = self._connection()
            try:
                response = self._send(connection, method, path, body)
                return _answer(response.status, response.read())
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if self._child is not None and (self._child.has_ended or attempt == attempts):
                    raise self._child.lost() from error
                if attempt == attempts:
                    raise ServerLostError(f"{self._host}:{self._port} does not answer ({error or type(error).__name__}). Start the server, or correct the URL.") from error
        raise AssertionError

    def lines(self, path: str, body: object) -> Iterator[Any]:
        """The lines of a streamed answer, on a connection of its own, which closes with the iterator."""
        connection = self._make(self._host, self._port, timeout=TIMEOUT_SECONDS)
        try:
            response = self._send(connection, "POST", path, body)
            if response.status != 200:
                _answer(response.status, response.read())
            for line in response:
                yield json.loads(line)
        except (OSError, http.client.HTTPException) as error:
            if self._child is not None:
                raise self._child.lost() from error
            raise ServerLostError(f"{self._host}:{self._port} ended its answer early ({error or type(error).__name__}).") from error
        finally:
            connection.close()

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, body: object) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, self._prefix + path, data, self._headers)
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._make(self._host, self._port, timeout=TIMEOUT_SECONDS)
        return connection

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None


def _answer(status: int, data: bytes) -> Any:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if 200 <= status < 300 and value is not None:
        return value
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        raise VfSearchError(str(error.get("message")), type=str(error.get("type")), status=status)
    raise VfSearchError(f"The server answered {status}, which is not an answer of a server of vf-search. Correct the URL.", status=status)
