"""An agent in Python with the package openai, as its documentation has it: a loop over one tool. It runs once for each question: `python reader.py CORPUS`, the row on stdin."""

import json
import os
import re
import sys

from openai import OpenAI

TASK = "Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words."
PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for"}},
    "required": ["query"],
    "additionalProperties": False,
}
FUNCTION = {"name": "find_note", "description": "Finds notes that contain words of a query.", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": FUNCTION}]
MOST_TURNS = 4
FOUND = 2


def words_of(text):
    return set(re.findall(r"[^\W\d_]{3,}", text.lower()))


def find_note(query, passages):
    """The passages that share the most words with the query, best first."""
    asked = words_of(query)
    shared = [(len(asked & words_of(contents)), contents) for contents in passages]
    best = sorted((each for each in shared if each[0] > 0), key=lambda each: -each[0])[:FOUND]
    texts = [contents.split("\n", 1) for _, contents in best]
    return "\n".join(f"Doc {i + 1}(Title: {title}) {text}" for i, (title, text) in enumerate(texts)) or "No note contains these words."


def run(question, passages):
    """The text of the last turn."""
    client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
    messages = [{"role": "system", "content": TASK}, {"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        message = client.chat.completions.create(model=os.environ["VF_MODEL"], messages=messages, tools=TOOLS).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            try:
                result = find_note(json.loads(call.function.arguments)["query"], passages)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return ""


def main():
    with open(sys.argv[1]) as file:
        passages = [json.loads(line)["contents"] for line in file]
    text = run(json.load(sys.stdin)["question"], passages)
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    # A program without an answer has failed. A model without one is wrong.
    print(json.dumps({"answer": (found[1] if found else text).strip() or "no answer"}))


main()
