"""Failures of a call, and the end of a process. `bad_input`: refused, nothing changed. `out_of_memory`: a smaller batch may fit. `not_finite`: NaN or infinity."""

import traceback


class Failure(Exception):
    """A failure with a code that the trainer knows; the text is one line: what happened, the value, the remedy."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


# Exit codes: stopped in the middle of a call; another rank is gone; this process cannot go on; this process ran out of memory and cannot go on.
EXIT_BUSY, EXIT_PEER_LOST, EXIT_BROKEN, EXIT_MEMORY = 3, 4, 5, 6


class Ended(BaseException):
    """This process cannot go on; not an Exception, because no call may catch it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Agreed(Failure):
    """A failure that every rank has raised already."""


def bad_input(text: str) -> Failure:
    return Failure("bad_input", text)


def free_memory() -> None:
    """Gives memory that no tensor uses back to the device."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def clear(error: BaseException) -> None:
    """Frees what a failed call left: the frames of its traceback keep tensors alive."""
    traceback.clear_frames(error.__traceback__)
    if classify(error).code == "out_of_memory":
        free_memory()


# cuBLAS cannot create its handle on a full GPU.
MEMORY_MARKS = ("not enough memory", "can't allocate memory", "out of memory", "alloc_failed", "cublas_status_not_initialized")
BROKEN_MARKS = ("cuda error", "cublas_status_execution_failed", "cudnn_status_execution_failed", "device-side assert")


def classify(error: BaseException) -> Failure:
    """Converts any exception to a Failure. Torch has a class for a full GPU, but raises plain RuntimeErrors when host memory is full.
    Raises Ended for an error of the GPU itself: after it, every further operation of the process fails too."""
    import torch

    if isinstance(error, Failure):
        return error
    text = " ".join(str(error).split())[:500]
    is_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and any(mark in text.lower() for mark in MEMORY_MARKS)
    )
    if is_memory:
        return Failure("out_of_memory", text)
    if isinstance(error, RuntimeError) and any(mark in text.lower() for mark in BROKEN_MARKS):
        raise Ended(EXIT_BROKEN, f"The GPU failed: {text}") from error
    return Failure("internal", f"{type(error).__name__}: {text}")
