"""Errors between this process and the server."""


class VfSearchError(RuntimeError):
    """A request failed. `type` is the server's name of the error, `status` its HTTP status; None if no server answered."""

    def __init__(self, message: str, *, type: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.type = type
        self.status = status


class ServerLostError(VfSearchError):
    """The server's process ended, or nothing answers at its address."""
