"""Writes test/golden/chat-templates/rendered.json: what transformers makes of the conversations below with each template of MANIFEST.json, or what it refuses.

python test/golden/producers/chat_templates.py (any Python with transformers 5)
"""

import hashlib
import importlib.metadata
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "test/golden/chat-templates"

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Finds passages about a subject; \"quoted\" words <must> stand there.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for, e.g. naïve café"},
                "count": {"type": "integer", "minimum": 1, "default": 3},
            },
            "required": ["query"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}

# Values that Python and JavaScript write differently.
MEASURE = {
    "type": "function",
    "function": {
        "name": "measure",
        "description": "Measures.",
        "parameters": {
            "type": "object",
            "properties": {
                "unit": {"type": ["string", "null"], "default": None, "enum": ["it's", "\"m\"", "\u00a0\n", None]},
                "exact": {"type": "boolean", "default": True, "deprecated": False},
                "step": {"type": "number", "default": 0.00001, "minimum": 1.5e-7, "maximum": 0.0001},
                "empty": {"default": {}, "examples": [], "nested": {"a": [True, None, {"b": 2.5}]}},
            },
            "additionalProperties": False,
        },
    },
}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, *calls):
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"call0000{i}", "type": "function", "function": {"name": name, "arguments": arguments}} for i, (name, arguments) in enumerate(calls)
        ]
    return message


def tool(content, index=0):
    return {"role": "tool", "tool_call_id": f"call0000{index}", "content": content}


THOUGHT = "<think>\nIt is a play.\n</think>\n\nShakespeare wrote it."

CONVERSATIONS = {
    "question": {"messages": [user("Who wrote Hamlet?")]},
    "system": {"messages": [system("Be brief."), user("Who wrote Hamlet?")]},
    "turns": {"messages": [system("Be brief."), user("Who?"), assistant("Shakespeare."), user("When?"), assistant("In 1600."), user("Where?")]},
    "whitespace": {"messages": [system("  Be brief. \n"), user("\nWho?  "), assistant(" Shakespeare.\n\n"), user("\tWhen?\n")]},
    "unicode": {"messages": [user("Zürich 苏黎世 🙂👩‍🔬 \u2028 <b>&amp;</b> 'quoted' \"twice\" \\n")]},
    "answered": {"messages": [user("Who?"), assistant("Shakespeare.")]},
    "thoughts": {"messages": [user("Who?"), assistant(THOUGHT), user("When?"), assistant("<think>\nLong ago.\n</think>\n\nIn 1600."), user("Where?")]},
    "tools": {"messages": [system("Be brief."), user("Who wrote Hamlet?")], "tools": [SEARCH, CLOCK]},
    "call": {
        "messages": [
            user("Who wrote Hamlet?"),
            assistant("", ("search", {"query": "Hamlet \"author\" <b>", "count": 2})),
            tool("Doc 1: Shakespeare\nDoc 2: naïve"),
            assistant("Shakespeare."),
            user("Sure?"),
        ],
        "tools": [SEARCH],
    },
    "two calls": {
        "messages": [
            user("Who wrote Hamlet, and what time is it?"),
            assistant("I look.", ("search", {"query": "Hamlet"}), ("now", {})),
            tool("Shakespeare"),
            tool("12:00", 1),
        ],
        "tools": [SEARCH, CLOCK],
    },
    "nested arguments": {
        "messages": [user("Who?"), assistant("", ("search", {"query": "a", "filter": {"years": [1600, 1.5, True, None], "é": "ü"}})), tool("{\"a\": 1}")],
        "tools": [SEARCH],
    },
    "schema values": {"messages": [user("How long is it?")], "tools": [MEASURE]},
    "argument values": {
        "messages": [
            user("How long is it?"),
            assistant("", ("measure", {"unit": None, "exact": True, "step": 0.00001, "low": 1.5e-7, "list": [True, None, 0.00012], "map": {"a": False}})),
            tool("5"),
        ],
        "tools": [MEASURE],
    },
    "blank characters": {"messages": [system("\ufeffBe brief.\u0085"), user("\x1cWho?\ufeff"), assistant("\u3000He.\x1f"), user("\u0085When?\u200b")]},
    "indented thoughts": {
        "messages": [user("Who?"), assistant("<think>\n  A play.\n\t</think>\n\n  Shakespeare."), tool("Shakespeare")],
    },
    "no user": {"messages": [system("Be brief.")]},
    "thinking off": {"messages": [system("Be brief."), user("Who?")], "variables": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}},
    "thinking on": {
        "messages": [user("Who?"), assistant(THOUGHT), user("When?")],
        "tools": [SEARCH],
        "variables": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    },
    "thoughts apart": {
        "messages": [
            user("Who?"),
            {**assistant("", ("search", {"query": "Hamlet"})), "reasoning_content": "It is a play.", "reasoning": "It is a play."},
            tool("Shakespeare"),
            {**assistant("Shakespeare."), "reasoning_content": "The result says so."},
            user("Sure?"),
        ],
        "tools": [SEARCH],
    },
    "parts": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": "Who wrote"}, {"type": "text", "text": " Hamlet?"}]},
        ],
    },
    "no content": {"messages": [user("Who?"), {"role": "assistant", "content": None, "tool_calls": assistant("", ("search", {"query": "a"}))["tool_calls"]}, tool("b")], "tools": [SEARCH]},
    "arguments as text": {
        "messages": [
            user("Who?"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "search", "arguments": "{\"query\": \"a\"}"}}],
            },
            tool("b"),
        ],
        "tools": [SEARCH],
    },
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}, user("Who?")], "tools": [CLOCK]},
    "two users": {"messages": [user("Who?"), user("When?")]},
    "late system": {"messages": [user("Who?"), assistant("Shakespeare."), system("Be brief."), user("When?")]},
}


def rendered_text(template: str, conversation: dict, add_generation_prompt: bool, **named: str | None) -> dict:
    try:
        texts, _ = render_jinja_template(
            [json.loads(json.dumps(conversation["messages"]))],
            tools=conversation.get("tools"),
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            date_string="26 Jul 2024",
            **named,
            **conversation.get("variables", {}),
        )
        return {"text": texts[0]}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}


def rendered(entry: dict, conversation: dict, add_generation_prompt: bool) -> dict:
    template = (FOLDER / entry["file"]).read_text(encoding="utf8")
    return rendered_text(template, conversation, add_generation_prompt, bos_token=entry["bos_token"], eos_token=entry["eos_token"])


def main() -> None:
    manifest = json.loads((FOLDER / "MANIFEST.json").read_text(encoding="utf8"))
    texts = []
    for entry in manifest["templates"]:
        digest = hashlib.sha256((FOLDER / entry["file"]).read_bytes()).hexdigest()
        assert digest == entry["sha256"], f"{entry['file']} is not the file of the manifest"
        for name, conversation in CONVERSATIONS.items():
            for prompt in (False, True):
                texts.append({"template": entry["file"], "conversation": name, "add_generation_prompt": prompt, **rendered(entry, conversation, prompt)})
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "jinja2")}
    lines = ",\n".join(f"    {json.dumps(text)}" for text in texts)
    head = {"producer": "test/golden/producers/chat_templates.py", **versions, "variables": {"date_string": "26 Jul 2024"}, "conversations": CONVERSATIONS}
    body = json.dumps(head, indent=2)[:-2]
    target = FOLDER / "rendered.json"
    target.write_text(f'{body},\n  "texts": [\n{lines}\n  ]\n}}\n', encoding="utf8")
    print(f"{target.relative_to(ROOT)}: {len(texts)} texts, {sum('refused' in text for text in texts)} refused")


if __name__ == "__main__":
    main()
