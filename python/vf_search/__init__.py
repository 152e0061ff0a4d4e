"""Environments of vf-search for Python trainers and harnesses. Each adapter is a module: `vf_search.trl`, `.inspect`, `.verl`, `.verifiers_v1`, `.verifiers_v0`."""

from typing import Any

from .environment import Environment, connect, serve
from .errors import ServerLostError, VfSearchError
from .gateway import Session, session

__all__ = ["Environment", "ServerLostError", "Session", "VfSearchError", "connect", "load_environment", "serve", "session"]


def load_environment(env: str = "search-r1", **args: Any) -> Any:
    """verifiers 0.1.14 calls this function for `vf-eval vf-search -a '{"env": "search-r1"}'`; see `vf_search.verifiers_v0`."""
    from .verifiers_v0 import load_environment

    return load_environment(env, **args)
