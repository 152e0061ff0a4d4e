"""An agent with the package openai: a loop over one tool, over Chat Completions and over Responses. Reads a row on stdin and prints its answer."""

import json
import os
import sys

from openai import OpenAI

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
ABOUT = {"name": "find_note", "description": "Finds notes that contain words of a query.", "parameters": PARAMETERS}
MODEL = os.environ["VF_MODEL"]
client = OpenAI(max_retries=0)
question = json.load(sys.stdin)["question"]


def accumulated(chunks):
    """The message of a stream; the package's own helper raises where a turn was cut."""
    message = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in chunks:
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        message["tool_calls"] += [call.model_dump(exclude_none=True) for call in delta.tool_calls or []]
    return {name: value for name, value in message.items() if value}


messages = [{"role": "user", "content": question}]
for turn in range(3):
    body = {"model": MODEL, "messages": messages, "tools": [{"type": "function", "function": ABOUT}], "max_tokens": 40}
    if turn % 2 == 0:
        message = client.chat.completions.create(**body).choices[0].message.model_dump(exclude_none=True)
    else:
        message = accumulated(client.chat.completions.create(**body, stream=True))
    messages.append(message)
    calls = message.get("tool_calls") or []
    messages += [{"role": "tool", "tool_call_id": call["id"], "content": "Doc 1"} for call in calls] or [{"role": "user", "content": "Are you sure?"}]

items = [{"role": "user", "content": f"{question} Once more."}]
for turn in range(2):
    response = client.responses.create(model=MODEL, input=items, tools=[{"type": "function", "strict": False, **ABOUT}], max_output_tokens=40)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "Doc 1"} for call in calls] or [{"role": "user", "content": "Sure?"}]
print(message.get("content") or response.output_text or "no answer")
