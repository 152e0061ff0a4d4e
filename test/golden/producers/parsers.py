"""Writes test/golden/parsers.json by running the parsers of verifiers 0.1.14.

python3 -m venv v0 && v0/bin/pip install verifiers==0.1.14 && v0/bin/python test/golden/producers/parsers.py
"""

import importlib.metadata
import json
import logging
import pathlib
import sys

from verifiers.parsers.think_parser import ThinkParser
from verifiers.parsers.xml_parser import XMLParser

logging.disable(logging.WARNING)
FIELDS = [["reasoning", "answer"], ["think", ["code", "answer"]], ["answer"]]
TEXTS = [
    "",
    "plain",
    "<reasoning>\na\n</reasoning>\n<answer>\nb\n</answer>",
    "<reasoning>a</reasoning><answer>b</answer>",
    "<answer>b</answer><reasoning>a</reasoning>",
    "<answer>one</answer> and <answer> two </answer>",
    "<answer>open only",
    "closed only</answer>",
    "<think>t</think><code>x</code>",
    "<think>t</think><answer>x</answer>",
    "<think>t</think>said",
    "<think>t</think>",
    "  <think>t</think> tail ",
    "<think>a</think><think>b</think>c",
    "before <think>t</think> after",
    "<think>never closed",
    "<answer></answer>",
    "<answer>a<answer>b</answer></answer>",
    "<reasoning>r</reasoning>\n\n",
    "<ANSWER>x</ANSWER>",
    "<reasoning>a</reasoning> trailing <answer>unclosed",
]


def assistant(text):
    return [{"role": "assistant", "content": text}]


def main():
    cases = []
    for fields in FIELDS:
        parser = XMLParser([tuple(f) if isinstance(f, list) else f for f in fields])
        reward = parser.get_format_reward_func()
        for text in TEXTS:
            cases.append(
                {
                    "parser": "xml",
                    "fields": fields,
                    "text": text,
                    "first": vars(parser.parse(text)),
                    "last": vars(parser.parse(text, last=True)),
                    "answer": parser.parse_answer(text),
                    "format_reward": reward(assistant(text)),
                    "format_str": parser.get_format_str(),
                }
            )
    think = ThinkParser()
    reward = think.get_format_reward_func()
    for text in TEXTS:
        cases.append({"parser": "think", "text": text, "answer": think.parse(text), "format_reward": reward(assistant(text))})
    golden = {
        "producer": "test/golden/producers/parsers.py",
        "versions": {"verifiers": importlib.metadata.version("verifiers"), "python": sys.version.split()[0]},
        "cases": cases,
    }
    path = pathlib.Path(__file__).parents[3] / "test" / "golden" / "parsers.json"
    path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


main()
