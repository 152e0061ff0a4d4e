"""Failures of a call. `bad_input`: refused, nothing changed. `out_of_memory`: a smaller batch may fit. `not_finite`: NaN or infinity."""


class Failure(Exception):
    """A failure with a code that the trainer knows; the text is one line: what happened, the value, the remedy."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def bad_input(text: str) -> Failure:
    return Failure("bad_input", text)


def classify(error: BaseException) -> Failure:
    """Converts any exception to a Failure. Torch has a class for a full GPU, but raises plain RuntimeErrors when host memory is full."""
    import torch

    if isinstance(error, Failure):
        return error
    text = " ".join(str(error).split())[:500]
    is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError)
        and any(mark in text.lower() for mark in ("not enough memory", "can't allocate memory", "out of memory", "alloc_failed"))
    )
    if is_memory:
        return Failure("out_of_memory", text)
    return Failure("internal", f"{type(error).__name__}: {text}")
