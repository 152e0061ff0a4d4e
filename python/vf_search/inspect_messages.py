"""Converts messages of `vf-serve environment` into Inspect AI's, and reads the answers of a model's server."""

import json
from typing import Any

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, ModelOutput
from inspect_ai.tool import ToolCall
from pydantic import TypeAdapter

__all__ = ["Answer", "chat"]

_MESSAGES = TypeAdapter(list[ChatMessage])


class Answer:
    """Records the answer of the model's server on its way to the log. Inspect's own copy lacks <think> and the name of the stop string."""

    def on_pending(self, event: ModelEvent) -> None:
        transcript()._event(event)

    def on_complete(self, event: ModelEvent) -> None:
        self.value: Any = event.call and event.call.response
        transcript()._event_updated(event)

    def text(self, output: ModelOutput, stop: list[str]) -> str:
        if not self.value or not self.value.get("choices"):  # Another form than OpenAI's.
            return output.completion
        choice, message = self.value["choices"][0], self.value["choices"][0]["message"]
        text: str = message.get("content") or ""
        for call in (each["function"] for each in message.get("tool_calls") or []):
            text += f'\n<tool_call>\n{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}\n</tool_call>'
        named = choice.get("stop_reason")
        return text + named if named in stop and not text.endswith(named) else text


def chat(messages: list[dict[str, Any]]) -> list[ChatMessage]:
    calls = [{"tool_calls": [_call(**call) for call in message["tool_calls"]]} if "tool_calls" in message else {} for message in messages]
    return _MESSAGES.validate_python([message | each for message, each in zip(messages, calls)])


def _call(id: str, name: str, arguments: str) -> ToolCall:
    try:
        return ToolCall(id, name, dict(json.loads(arguments)))
    except (ValueError, TypeError):
        return ToolCall(id, name, {}, parse_error=f"The arguments are no JSON object: {arguments}")
