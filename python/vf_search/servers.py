"""Environments that an adapter opens when it first needs them."""

import json
import os
import threading
from collections.abc import Mapping
from typing import Any, Literal

from .environment import Environment, connect, serve


class Servers:
    """Opens each environment once, for all threads of this process."""

    def __init__(self) -> None:
        self._opened: dict[str, Environment] = {}
        self._lock = threading.Lock()

    def open(
        self,
        env: str,
        args: Mapping[str, Any] | None = None,
        split: Literal["train", "eval"] = "eval",
        tokenizer: str | None = None,
        url: str | None = None,
        api_key_var: str | None = None,
        **options: Any,
    ) -> Environment:
        """
        `env`, an id or a path, in a server that ends with this process; or the environment that is served at `url`, whose key is in the variable `api_key_var`; then `env` and
        all settings of its server have no effect.
        """
        key = json.dumps([url] if url else [env, args, split, tokenizer, options], sort_keys=True)
        with self._lock:
            if key not in self._opened or self._opened[key].has_ended:
                if url is not None:
                    self._opened[key] = connect(url, os.environ[api_key_var] if api_key_var else None)
                else:
                    self._opened[key] = serve(env, args, split, tokenizer, **options)
            return self._opened[key]

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()
