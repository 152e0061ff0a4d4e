"""The processes of one worker, its ranks: rank 0 reads the trainer's frames and passes every call on, so that all ranks run the same calls in the same order.

Variables as torchrun sets them: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. With VF_TORCH_STORE, a path in a private folder,
the ranks of one host meet in that file and over loopback; nothing listens on other interfaces. Nothing that a rank receives is unpickled.

A rank whose neighbour is gone ends with EXIT_PEER_LOST: only the trainer can start the ranks again, and it reports the rank that ended first.
"""

import io
import os
import sys
import traceback
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator

import numpy
import torch
import torch.distributed as dist

from failure import EXIT_BROKEN, EXIT_PEER_LOST, Agreed, Ended, Failure, bad_input, classify, clear
from frames import Arrays, read_frame, write_frame

# Ranks wait for each other while the trainer samples, which may take hours; the trainer has a deadline for each call and ends ranks that miss it.
PATIENCE = timedelta(days=20)
# A rank on another host that cannot connect to all ranks in this time ends; its loop starts it again.
MEETING = timedelta(minutes=5)
# The most serious first: where ranks fail differently, this failure is reported.
CODES = ("internal", "bad_input", "out_of_memory", "not_finite")


class Ranks:
    """`control` (gloo, on the host) carries calls and agreements, `data` (NCCL between GPUs) gradients and weights."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        # Read by another thread when the trainer is gone: whether this rank is only waiting for others.
        self.waits = False
        self.data: Any = None

    def join(self) -> None:
        """Waits for all ranks."""
        path = os.environ.get("VF_TORCH_STORE")
        meeting: dict[str, Any] = {"init_method": "env://"}
        if path:
            for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
                os.environ.setdefault(variable, "lo0" if sys.platform == "darwin" else "lo")
            meeting = {"store": dist.FileStore(path, self.size)}
        with self._waiting():
            dist.init_process_group("gloo", rank=self.rank, world_size=self.size, timeout=PATIENCE if path or self.rank == 0 else MEETING, **meeting)
            dist.distributed_c10d._set_pg_timeout(PATIENCE, dist.group.WORLD)
            self.data = dist.group.WORLD

    def use(self, device: torch.device) -> None:
        """Chooses how weights and gradients travel."""
        if device.type == "cuda":
            with self._waiting():
                self.data = dist.new_group(backend="nccl", timeout=PATIENCE)

    def share(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Rank 0: passes a call on."""
        stream = io.BytesIO()
        write_frame(stream, header, arrays)
        self._send_bytes(stream.getvalue(), 0)

    def receive(self) -> tuple[dict[str, Any], Arrays]:
        """The other ranks: waits for the next call."""
        frame = read_frame(io.BytesIO(self._send_bytes(b"", 0)))
        assert frame is not None
        return frame

    def together(self, act: Callable[[], Any]) -> Any:
        """Returns the act's value if it succeeded on every rank; otherwise every rank raises the same Failure. An act may contain others."""
        value, failure = None, None
        try:
            value = act()
        except (Agreed, Ended):
            raise
        except BaseException as error:
            failure = classify(error)
            if failure is not error or failure.__cause__ is not None:
                traceback.print_exc()
            clear(error)
        found = self.gather(torch.tensor([len(CODES) if failure is None else _rank_of(failure)]))
        worst = min(int(code) for code in found)
        if worst == len(CODES):
            return value
        failed = [rank for rank, code in enumerate(found) if int(code) == worst]
        text = self._send_bytes(failure.text.encode() if failure and self.rank == failed[0] else b"", failed[0]).decode()
        raise Agreed(CODES[worst], text if len(failed) == self.size else f"Rank {failed[0]}: {text}")

    def or_end(self, act: Callable[[], Any], what: str) -> Any:
        """For acts that change this rank's weights: if one rank alone fails, its weights are no longer those of the others."""
        try:
            return act()
        except Exception as error:
            raise Ended(EXIT_BROKEN, f"Rank {self.rank} failed in the middle of {what}: {classify(error).text}") from error

    def check_same(self, text: str, what: str) -> None:
        """Fails on all ranks if the text differs from rank 0's on any."""
        first = self._send_bytes(text.encode(), 0).decode()

        def compare() -> None:
            if text != first:
                raise bad_input(f"It has other files than rank 0 for {what}; copy them from rank 0's host")

        self.together(compare)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The same tensor on the host of every rank, by rank."""
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        with self._waiting():
            dist.all_gather(found, tensor)
        return found

    def collect(self, numbers: numpy.ndarray) -> numpy.ndarray:
        """Adds up on rank 0; what other ranks get has no meaning."""
        tensor = torch.from_numpy(numbers)
        with self._waiting():
            dist.reduce(tensor, 0)
        return numbers

    def add_up(self, tensor: torch.Tensor) -> None:
        """Adds up in place, with the same bits on every rank."""
        with self._waiting():
            dist.all_reduce(tensor, group=self.data)
            _finish(tensor)

    def spread(self, tensors: list[torch.Tensor]) -> None:
        """Overwrites the tensors with those of rank 0."""
        with self._waiting(), torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, 0, group=self.data)
            _finish(*tensors)

    def _send_bytes(self, data: bytes, source: int) -> bytes:
        length = torch.tensor([len(data)])
        with self._waiting():
            dist.broadcast(length, source)
            tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8) if self.rank == source and data else torch.empty(int(length), dtype=torch.uint8)
            if len(tensor):
                dist.broadcast(tensor, source)
        return tensor.numpy().tobytes()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waits = True
        try:
            yield
        except Exception as error:
            raise Ended(EXIT_PEER_LOST, f"Rank {self.rank} lost the connection to another rank: {' '.join(str(error).split())[:300]}") from error
        finally:
            self.waits = False


def _rank_of(failure: Failure) -> int:
    return CODES.index(failure.code) if failure.code in CODES else 0


def _finish(*tensors: torch.Tensor) -> None:
    """NCCL returns before it is done; an error must surface here."""
    if tensors and tensors[0].is_cuda:
        torch.cuda.synchronize()
