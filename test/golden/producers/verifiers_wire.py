"""Writes test/golden/verifiers-wire/client.json: the requests of verifiers 0.4.0's EnvClient as bytes, and what it reads in the answers.

"$(scripts/interop/install.sh verifiers)" test/golden/producers/verifiers_wire.py
"""

import asyncio
import contextlib
import importlib.metadata
import json
import pathlib
import sys
import uuid

import msgpack
import verifiers.v1 as vf
import zmq
import zmq.asyncio
from verifiers.v1.configs.client import EvalClientConfig, TrainClientConfig
from verifiers.v1.episode import Episode
from verifiers.v1.graph import MessageNode
from verifiers.v1.serve import EnvClient
from verifiers.v1.serve import delta, types
from verifiers.v1.trace import AgentInfo, AgentSpan, Error, ModelCall, Reward, Timing, TimeSpan, TimeSplit, Trace, TraceTask, VersionInfo
from verifiers.v1.types import AssistantMessage, SamplingConfig, SystemMessage, Tool, ToolCall, ToolMessage, Usage, UserMessage

BASE_URL = "http://127.0.0.1:8000/v1"
RECORDS = [Episode, Trace, TraceTask, AgentInfo, VersionInfo, MessageNode, ModelCall, Usage, Error, Reward, Timing, TimeSpan, AgentSpan, TimeSplit]
RECORDS += [SystemMessage, UserMessage, AssistantMessage, ToolMessage, ToolCall, Tool, types.RunResponse, types.CancelResponse, delta.TraceSummary]


class Data(vf.TaskData):
    example_id: str


class Recorder:
    """A ROUTER socket that keeps every request and refuses it; a run named `slow` is not answered."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.requests = []
        self.arrived = asyncio.Condition()

    async def run(self):
        while True:
            client, request_id, method, payload = await self.socket.recv_multipart()
            async with self.arrived:
                self.requests.append([request_id.decode(), method.decode(), payload.hex()])
                self.arrived.notify_all()
            is_run = method == b"run"
            if is_run and msgpack.unpackb(payload)["task_data"]["name"] == "slow":
                continue
            reply = {"success": not is_run, "error": "recorded" if is_run else None}
            await self.socket.send_multipart([client, request_id, b"reply", msgpack.packb(reply)])

    async def has(self, count):
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests) >= count)


async def requests():
    context = zmq.asyncio.Context()
    recorder = Recorder(context)
    recording = asyncio.create_task(recorder.run())
    client = EnvClient(f"tcp://127.0.0.1:{recorder.port}")
    messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "What is grey?"}]

    def run(config, sampling, name):
        data = Data(idx=1, example_id="row-1", name=name, prompt=messages)
        return client.run(config, "policy", sampling, data.model_dump(mode="json"))

    await client.health()
    train = TrainClientConfig(base_url=BASE_URL, api_key_var="VLLM_API_KEY", headers={"x-team": "t"}, renderer_model_name="policy")
    extra = {"top_k": -1, "min_p": 0.0, "cache_salt": "7", "return_token_ids": True}
    for config, sampling in [
        (EvalClientConfig(base_url=BASE_URL), SamplingConfig()),
        (train, SamplingConfig(temperature=1.0, top_p=0.95, max_tokens=64, logprobs=True, extra_body=extra)),
    ]:
        with contextlib.suppress(RuntimeError):
            await run(config, sampling, "recorded")
    slow = asyncio.create_task(run(train, SamplingConfig(temperature=0.0), "slow"))
    await recorder.has(4)
    slow.cancel()
    await recorder.has(5)
    await client.close()
    recording.cancel()
    recorder.socket.close(0)
    context.term()
    return dict(zip(["health", "run_eval", "run_train", "run_slow", "cancel"], recorder.requests, strict=True))


def main():
    # The ids of requests are the only thing that differs between two recordings.
    ids = iter(range(1, 100))
    uuid.uuid4 = lambda: uuid.UUID(int=next(ids))
    recorded = asyncio.run(requests())
    packages = ["verifiers", "pyzmq", "msgpack", "pydantic"]
    golden = {
        "producer": "test/golden/producers/verifiers_wire.py",
        "versions": {name: importlib.metadata.version(name) for name in packages} | {"python": sys.version.split()[0]},
        "requests": {name: {"request_id": r[0], "method": r[1], "payload": r[2], "read": msgpack.unpackb(bytes.fromhex(r[2]))} for name, r in recorded.items()},
        "delta": {"open": delta.HEADER_FIELDS, "lists": delta.LIST_FIELDS, "set": delta.SCALAR_FIELDS},
        "records": {record.__name__.split("[")[0]: {name: field.is_required() for name, field in record.model_fields.items()} for record in RECORDS},
    }
    path = pathlib.Path(__file__).parents[3] / "test/golden/verifiers-wire/client.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"wrote {path}")


main()
