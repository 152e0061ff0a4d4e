"""
The recipe `search_tool` of tinker-cookbook as it is, Search-R1 by tool calls, on the bundled fact world: search_tool.py TINKER RETRIEVER MODEL ROWS PREFIX
FOLDER STEPS [negate].
Given here is what the recipe would get elsewhere: its rows, a vector database and its embeddings, for which `vf-serve retrieve` stands, and a renderer of the nano model,
which calls its tool by the tags of Search-R1. Prints the rewards as JSON.
"""

import asyncio
import importlib.metadata
import json
import os
import re
import sys
import types as modules
import urllib.request

os.environ["TINKER_TELEMETRY"] = "0"
TINKER, RETRIEVER, MODEL, ROWS, PREFIX, FOLDER, STEPS = sys.argv[1:8]
os.environ["TINKER_BASE_URL"] = TINKER


class Collection:
    """Asks the retriever for the texts that the recipe has no vectors of."""

    async def query(self, query_embeddings, n_results):
        return await asyncio.to_thread(self.retrieve, query_embeddings, n_results)

    def retrieve(self, queries, count):
        body = json.dumps({"queries": queries, "topk": count, "return_scores": False}).encode()
        request = urllib.request.Request(RETRIEVER, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            found = json.load(answer)["result"]
        return {"documents": [[each.get("document", each)["contents"] for each in passages] for passages in found]}


class Database:
    async def get_collection(self, _):
        return Collection()


async def connect(**_):
    return Database()


def module(name: str, **contents: object) -> None:
    made = modules.ModuleType(name)
    for key, value in contents.items():
        setattr(made, key, value)
    sys.modules[name] = made


module("chromadb", AsyncHttpClient=connect)
module("chromadb.api", AsyncClientAPI=object)
module("chromadb.api.types", QueryResult=dict)
module("chromadb.config", Settings=lambda **_: None)
module("google.genai.types", HttpOptions=object)
module("google.genai", Client=object, types=sys.modules["google.genai.types"])

from tinker import types
from tinker_cookbook import renderers
from tinker_cookbook.recipes.search_tool import search_env, tools, train
from tinker_cookbook.renderers.base import Message, ParseTermination, RenderedMessage, Renderer, ToolCall


async def embeddings(_, queries, *__):
    return queries


def rows(_: str) -> list[dict[str, object]]:
    with open(ROWS) as file:
        read = [json.loads(line) for line in file]
    return [{"question": row["question"], "answer": row["golden_answers"], "data_source": "fact-world"} for row in read]


tools.get_gemini_client = lambda: None
tools.get_gemini_embedding = embeddings
search_env.download_search_r1_dataset = rows

with open(PREFIX) as file:
    INSTRUCTIONS = file.read()


class SearchTags(Renderer):
    """Calls by `<search>`, results in `<information>`, and the answer in `<answer>`."""

    has_extension_property = True

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def render_message(self, message, ctx):
        role, content = message["role"], renderers.get_text_content(message)
        text = {"user": f"<|im_start|>user\n{INSTRUCTIONS} Question: {content}\n<|im_end|>\n<|im_start|>assistant\n"}.get(role, content)
        if role == "tool":
            documents = re.findall(r"Document \d+:\n(.*)\n(.*)\n", content)
            listed = "\n".join(f"Doc {i + 1}(Title: {title}) {body}" for i, (title, body) in enumerate(documents))
            text = f"\n\n<information>{listed}</information>\n\n"
        if role == "assistant":
            text = self.said.get(content, content)
        return RenderedMessage(output=[types.EncodedTextChunk(tokens=self.ids(text))])

    # What the model said, by what the recipe understood of it.
    said: dict[str, str] = {}

    def _get_generation_suffix(self, role, ctx):
        return []

    def get_stop_sequences(self):
        return ["</search>", "</answer>"]

    def parse_response(self, response):
        text = self.tokenizer.decode(response)
        query, answer = re.search(r"<search>(.*?)</search>", text), re.search(r"<answer>(.*?)</answer>", text)
        if query is not None:
            call = ToolCall(function=ToolCall.FunctionBody(name="search", arguments=json.dumps({"query_list": [query[1].strip()]})), id="search")
            return Message(role="assistant", content=text, tool_calls=[call]), ParseTermination.STOP_SEQUENCE
        if answer is None:
            return Message(role="assistant", content=text), ParseTermination.MALFORMED
        understood = f"Answer: {answer[1].strip()}"
        self.said[understood] = text
        return Message(role="assistant", content=understood), ParseTermination.STOP_SEQUENCE

    def create_conversation_prefix_with_tools(self, tools, system_prompt=""):
        return []


renderers.register_renderer("search_tags", lambda tokenizer, *_: SearchTags(tokenizer))
if "negate" in sys.argv:
    graded = tools.TextAnswerReward.__call__

    async def turned(self, history):
        reward, metrics = await graded(self, history)
        return -reward, metrics

    tools.TextAnswerReward.__call__ = turned

config = train.CLIConfig(
    model_name=MODEL,
    renderer_name="search_tags",
    lora_rank=8,
    learning_rate=2e-3,
    batch_size=8,
    group_size=16,
    max_tokens=64,
    max_turns=2,
    max_trajectory_tokens=1024,
    log_path=FOLDER,
    max_steps=int(STEPS),
    behavior_if_log_dir_exists="delete",
)
asyncio.run(train.cli_main(config))
with open(f"{FOLDER}/metrics.jsonl") as file:
    lines = [json.loads(line) for line in file]
right = [line["env/all/correct"] for line in lines]
print(json.dumps({"version": importlib.metadata.version("tinker-cookbook"), "right": right, "seconds": [line["time/total"] for line in lines]}))
