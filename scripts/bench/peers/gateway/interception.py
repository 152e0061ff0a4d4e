"""The interception server of verifiers 0.4.0 alone: python interception.py UPSTREAM SESSIONS -> one line of JSON, {"base_url": ..., "keys": [...]}, then serves until it is killed."""

import asyncio
import json
import sys

from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.interception.server import InterceptionServer
from verifiers.v1.session import RolloutSession
from verifiers.v1.state import State
from verifiers.v1.task import TaskData
from verifiers.v1.trace import AgentInfo, Trace, TraceTask


async def main(upstream, sessions):
    async with InterceptionServer() as server:
        context = ModelContext(model="scripted", client=EvalClientConfig(base_url=upstream))
        keys = []
        for i in range(sessions):
            trace = Trace(task=TraceTask(type="Bench", data=TaskData(idx=i, prompt="a"), key=str(i), hash=str(i)), state=State(), agent=AgentInfo(config=WireAgentConfig()))
            keys.append(server.register(RolloutSession(ctx=context, trace=trace))[0])
        print(json.dumps({"base_url": f"{server.base_url}/v1", "keys": keys}), flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
