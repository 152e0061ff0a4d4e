"""The retrieval client of Search-R1 (search_r1/llm_agent/generation.py at a14dc3a4): `batch_search` and what it calls, without the class around them.

argv: URL of /retrieve, queries as JSON.
"""
import json
import sys

import requests

url, queries = sys.argv[1], json.loads(sys.argv[2])


def _batch_search(queries):
    payload = {"queries": queries, "topk": 3, "return_scores": True}
    return requests.post(url, json=payload).json()


def _passages2string(retrieval_result):
    format_reference = ""
    for idx, doc_item in enumerate(retrieval_result):
        content = doc_item["document"]["contents"]
        title = content.split("\n")[0]
        text = "\n".join(content.split("\n")[1:])
        format_reference += f"Doc {idx+1}(Title: {title}) {text}\n"
    return format_reference


results = _batch_search(queries)["result"]
print(
    json.dumps(
        {
            "version": requests.__version__,
            "texts": [_passages2string(result) for result in results],
            "scores": [[each["score"] for each in result] for result in results],
        }
    )
)
