"""Environments of vf-search for Python trainers and harnesses. Each adapter is a module: `vf_search.trl`, `.inspect`, `.verl`, `.verifiers_v1`."""

from .environment import Environment, connect, serve
from .errors import ServerLostError, VfSearchError

__all__ = ["Environment", "ServerLostError", "VfSearchError", "connect", "serve"]
