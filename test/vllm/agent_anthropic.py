"""An agent with the package anthropic, streamed and not: a loop over one tool. Reads a row on stdin and prints its answer."""

import json
import os
import sys

from anthropic import Anthropic

TOOLS = [
    {
        "name": "find_note",
        "description": "Finds notes that contain words of a query.",
        "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    }
]
client = Anthropic(max_retries=0)


def ask(messages, streamed):
    body = {"model": os.environ["VF_MODEL"], "max_tokens": 40, "system": "Look things up.", "tools": TOOLS, "messages": messages}
    if not streamed:
        return client.messages.create(**body)
    with client.messages.stream(**body) as stream:
        return stream.get_final_message()


messages = [{"role": "user", "content": json.load(sys.stdin)["question"]}]
for turn in range(3):
    reply = ask(messages, streamed=turn % 2 == 1)
    messages.append({"role": "assistant", "content": reply.content})
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "Doc 1"} for block in reply.content if block.type == "tool_use"]
    messages.append({"role": "user", "content": results or "Are you sure?"})
print("".join(block.text for block in reply.content if block.type == "text") or "no answer")
