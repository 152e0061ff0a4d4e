"""Worker of torch-backend.ts: answers frames on stdin with frames on stdout until stdin ends.

Stdout carries only frames; anything a library prints goes to stderr, the log. Nothing is unpickled, and no code from a model's directory is run.
The first call is `hello`, then `load_base`, then `create_adapter`; after that any order. One call at a time.

With WORLD_SIZE above 1 this is one of several ranks (ranks.py). Rank 0 answers; the others run the calls that it passes on, until their stdin or rank 0
ends. On another host than the trainer's a rank is started by hand, `python worker.py --join`, and its stdin has no meaning.
VF_TORCH_DEVICE is the device of a rank above 0. VF_TORCH_MEMORY_LIMIT_TOKENS is for tests, see memory_limit.py.
"""

import os
import signal
import sys

# Must come before any import that could print: keep the real stdout for frames and redirect descriptor 1 to the log.
FRAMES_OUT = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
# Ctrl-C in a terminal reaches the whole process group; the trainer decides when the worker ends.
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# Threads that spin while waiting slow a busy machine tens of times: two of them on two cores shared with vLLM on the CPU.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Batches differ in length, and fixed segments would fragment memory.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
# This folder may be read-only, so it gets no __pycache__; libraries may write theirs.
WRITES_BYTECODE = not sys.dont_write_bytecode
sys.dont_write_bytecode = True

import queue  # noqa: E402
import shutil  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402
from typing import Any, Callable, NoReturn  # noqa: E402

from calls import CALLS, RANK, Calls, Reply  # noqa: E402
from failure import EXIT_BROKEN, EXIT_BUSY, EXIT_PEER_LOST, Ended, Failure  # noqa: E402
from frames import Arrays, FrameError, read_frame, write_frame  # noqa: E402

JOINS = "--join" in sys.argv[1:]
# The time for which a call may continue after the trainer is gone, to remove its temporary directory.
GRACE_S = 2.0


def answer(worker: Calls, header: dict[str, Any], arrays: Arrays) -> Reply:
    """Returns the reply to one call, or its failure as a reply. The traceback goes to the log."""
    call: Callable[[dict[str, Any], Arrays], Reply] | None = getattr(worker, header["call"]) if header.get("call") in CALLS else None
    try:
        if worker.ranks and RANK == 0:
            worker.ranks.share(header, arrays)
        if call is None:
            raise ValueError(f"no call {header.get('call')!r}")
        reply, out = call(header, arrays)
        return {"id": header["id"], "ok": True, **reply}, out
    except Exception as error:
        if worker.ranks and not isinstance(error, Failure):
            # Only this rank failed, so the others would wait for it forever.
            traceback.print_exc()
            raise Ended(EXIT_BROKEN, f"Rank {RANK} failed alone in {header.get('call')}: {' '.join(str(error).split())[:300]}") from error
        if isinstance(error, ImportError):
            # classify imports torch, which may be what is missing.
            traceback.print_exc()
            return {"id": header["id"], "ok": False, "code": "missing_library", "text": " ".join(str(error).split())}, {}
        from failure import classify

        failure = classify(error)
        if failure is not error or failure.__cause__ is not None:
            traceback.print_exc()
        # The traceback's frames keep tensors alive.
        traceback.clear_frames(error.__traceback__)
    release_memory(failure.code)
    return {"id": header["id"], "ok": False, "code": failure.code, "text": failure.text}, {}


def release_memory(code: str) -> None:
    """After running out of memory, frees what the failed call left before the next one."""
    if code == "out_of_memory":
        from failure import free_memory

        free_memory()


def read_calls(calls: "queue.Queue[Any]", worker: Calls) -> None:
    """Reads ahead, so that the end of stdin ends the process even during a long call."""
    try:
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            calls.put(frame)
    except (FrameError, ValueError, KeyError) as error:
        print(f"worker: {error}", file=sys.stderr, flush=True)
    calls.put(None)
    threading.Event().wait(GRACE_S)
    leave(0 if worker.ranks is None else EXIT_PEER_LOST if worker.ranks.waits else EXIT_BUSY)


def leave(code: int) -> NoReturn:
    """Not a normal exit, which threads of torch and of CUDA can block."""
    if RANK == 0 and (store := os.environ.get("VF_TORCH_STORE")):
        shutil.rmtree(os.path.dirname(store), ignore_errors=True)
    sys.stderr.flush()
    os._exit(code)


def lead(worker: Calls, calls: "queue.Queue[Any]") -> None:
    while (frame := calls.get()) is not None:
        header, arrays = frame
        if header.get("call") == "shutdown":
            if worker.ranks:
                worker.ranks.share(header, arrays)
            write_frame(FRAMES_OUT, {"id": header["id"], "ok": True}, {})
            return
        reply, out = answer(worker, header, arrays)
        write_frame(FRAMES_OUT, reply, out)


def follow(worker: Calls) -> None:
    try:
        worker.join()
    except ImportError:
        traceback.print_exc()
        if not JOINS:
            # Rank 0 runs the same Python and reports it.
            threading.Event().wait()
        leave(1)
    while True:
        header, arrays = worker.ranks.receive()
        if header.get("call") == "shutdown":
            return
        answer(worker, header, arrays)


def main() -> None:
    calls: queue.Queue[Any] = queue.Queue()
    worker = Calls(writes_bytecode=WRITES_BYTECODE)
    if not JOINS:
        threading.Thread(target=read_calls, args=(calls, worker), daemon=True).start()
    try:
        if RANK == 0:
            lead(worker, calls)
        else:
            follow(worker)
    except Ended as end:
        print(end, file=sys.stderr, flush=True)
        leave(end.code)
    leave(0)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        leave(0)
