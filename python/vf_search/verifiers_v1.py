"""verifiers 0.4.0, which finds this as `vf-search-v1`: the rows of `vf-serve verifiers` as a taskset, and an Env that lets that server play them, for
programs that play in their own process, such as `vf-eval`. prime-rl talks to the server itself. Needs `vf_search[verifiers-v1]`."""

from collections.abc import Iterator
from typing import Any

import msgpack
import verifiers.v1 as vf
import zmq
from verifiers.v1.clients import ModelContext
from verifiers.v1.serve import EnvClient

from .errors import ServerLostError, VfSearchError

__all__ = ["VfSearchEnv", "VfSearchTaskset"]


class VfSearchData(vf.TaskData):
    example_id: str | int


class VfSearchTask(vf.Task[VfSearchData]):
    # The server echoes the row's id as key and hash: a hash of the row's content differs between languages.
    @property
    def key(self) -> str:
        return str(self.data.example_id)

    hash = key


class VfSearchTasksetConfig(vf.TasksetConfig):
    address: str = "tcp://127.0.0.1:5000"
    """The output of `vf-serve verifiers`."""


class VfSearchTaskset(vf.Taskset[VfSearchTask, VfSearchTasksetConfig]):
    def load(self) -> Iterator[VfSearchTask]:
        for row in _rows(self.config.address):
            yield VfSearchTask(VfSearchData(example_id=row["example_id"], name=str(row["example_id"]), prompt=row["prompt"]), self.config.task)


class VfSearchEnvConfig(vf.EnvConfig):
    # Nothing runs in Python: neither a harness nor a runtime that needs an account.
    agent: vf.AgentConfig = vf.AgentConfig.model_validate({"harness": {"id": "null"}, "runtime": {"type": "subprocess"}})


class VfSearchEnv(vf.Env[VfSearchEnvConfig]):
    async def start(self) -> None:
        self._client = EnvClient(self.taskset.config.address)
        await self._client.wait_for_server_startup()

    async def stop(self) -> None:
        await self._client.close()

    async def run(self, task: Any, agents: Any) -> None:
        raise NotImplementedError("vf-serve verifiers plays the episodes; see run_episode")

    async def run_episode(self, task: Any, ctx: ModelContext, *, on_trace: Any = None, on_discard: Any = None) -> Any:
        episode = await self._client.run(ctx.client, ctx.model, ctx.sampling, task.data.model_dump(mode="json"))
        for trace in episode.traces if on_trace else []:
            on_trace(trace)
        return episode


def _rows(address: str) -> Iterator[dict[str, Any]]:
    """Uses the method `tasks` of our server, which no client of verifiers knows."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger, socket.rcvtimeo = 0, 60_000
        socket.connect(address)
        offset, total = 0, 1
        while offset < total:
            socket.send_multipart([b"tasks", b"tasks", msgpack.packb({"offset": offset})])
            try:
                reply = msgpack.unpackb(socket.recv_multipart()[-1])
            except zmq.Again:
                raise ServerLostError(f"Nothing answers at {address}. Start it: vf-serve verifiers ENVIRONMENT --bind {address}") from None
            if not reply["success"]:
                raise VfSearchError(f"{address} lists no rows: {reply['error']}. Name the address of a vf-serve verifiers.")
            yield from reply["tasks"]
            offset, total = offset + len(reply["tasks"]), reply["total"]
