"""`vf-serve` as a child process, which ends with this one even if this one is killed."""

import json
import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from .errors import ServerLostError, VfSearchError

STARTUP_SECONDS = 180.0
_REFUSED = 2
"""The exit code of a command line that cannot be used; the reason is one line."""
_NOT_INSTALLED = re.compile(r"^npm (error|ERR!) (code (E404|ENOTCACHED)$|.*canceled due to missing packages)")
"""The messages of npx, with --offline and without, if no installed package has the command."""


class Child:
    """Starts the command and waits for the address on its first line. Raises VfSearchError if it refuses its arguments, ServerLostError if it ends otherwise."""

    def __init__(self, command: Sequence[str], cwd: str | None = None, startup_seconds: float = STARTUP_SECONDS) -> None:
        self._command, self._cwd = [*command, "--exit-with-stdin"], cwd
        try:
            # The child lives as long as this pipe: the system closes it when this process ends, for any reason.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
            )
        except OSError as error:
            raise ServerLostError(f"{command[0]} could not be started ({error.strerror}). Install Node and vf-search, or pass command=.") from error
        self._said: deque[str] = deque(maxlen=20)
        self._first_line = ""
        self._readers = [self._read(self._process.stderr, self._said.append)]
        address = threading.Event()
        self._readers.append(self._read(self._process.stdout, self._on_line(address), address.set))
        if not address.wait(startup_seconds):
            self.close()
            raise ServerLostError(f"The server gave no address within {startup_seconds:g} s.{self._last_lines()}")
        if not self._first_line:
            refusal = self._startup_error()
            self.close()
            raise refusal

    @property
    def address(self) -> str:
        return self._first_line

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def lost(self) -> ServerLostError:
        """The reason why the process is gone, with its last lines. Waits for a process that is just ending."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return ServerLostError(f"The server does not answer.{self._last_lines()}")
        for reader in self._readers:
            reader.join(1)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ServerLostError(f"The server {how}.{self._last_lines()}")

    def close(self) -> None:
        """Ends the process. Safe to call twice."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(1)

    def _startup_error(self) -> VfSearchError:
        """The reason why it ended before it printed an address."""
        lost = self.lost()
        if self._process.poll() == _REFUSED and self._said:
            return VfSearchError(next((line for line in reversed(self._said) if line.startswith("vf-serve:")), self._said[-1]))
        if any(map(_NOT_INSTALLED.search, self._said)):
            return ServerLostError(
                f"vf-search is not installed in {os.path.abspath(self._cwd or '.')}. Install it there from a clone of it (npm install CLONE), or pass cwd=FOLDER or command=[...]."
            )
        return lost

    def _on_line(self, address: threading.Event) -> Any:
        def on_line(line: str) -> None:
            if not self._first_line:
                self._first_line = line
                address.set()

        return on_line

    def _read(self, stream: IO[str] | None, use: Any, at_end: Any = None) -> threading.Thread:
        assert stream is not None

        def read() -> None:
            with stream:
                for line in stream:
                    use(line.rstrip("\n"))
            if at_end is not None:
                at_end()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def _last_lines(self) -> str:
        return f" It said: {' | '.join(self._said)}" if self._said else ""


def serve_arguments(
    env_id: str, args: Mapping[str, Any], split: str, tokenizer: str | None, roles: Mapping[str, str], options: Mapping[str, Any]
) -> list[str]:
    """The arguments of `vf-serve environment`. An option `max_sessions=8` becomes `--max-sessions 8`, `verbose=True` `--verbose`; a list repeats it."""
    words = ["environment", env_id, "--split", split, "--port", "0"]
    if args:
        words += ["-a", json.dumps(args)]
    if tokenizer is not None:
        words += ["--tokenizer", tokenizer]
    for role, model in roles.items():
        words += ["--role", f"{role}={model}"]
    for name, value in options.items():
        values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
        for each in values:
            if each is not None and each is not False:
                words += [f"--{name.replace('_', '-')}", *([] if each is True else [str(each)])]
    return words
