"""Asks /retrieve as `batch_search` of Search-R1 does (search_r1/llm_agent/generation.py at a14dc3a4): one POST by requests, with all queries of a batch, no
deadline and no header but its own; and reads of every passage what its `_passages2string` reads.

argv: URL of /retrieve, queries as JSON.
"""
import json
import sys

import requests

url, queries = sys.argv[1], json.loads(sys.argv[2])
answer = requests.post(url, json={"queries": queries, "topk": 3, "return_scores": True}).json()
passages = [[each["document"]["contents"].split("\n", 1) for each in found] for found in answer["result"]]
print(
    json.dumps(
        {
            "version": requests.__version__,
            "passages": passages,
            "scores": [[each["score"] for each in found] for found in answer["result"]],
        }
    )
)
