"""
Plays rows through /v1/episodes with samples of a policy server, by token ids, greedily. Arguments: the environment's URL, the policy's base URL, its model, the number
of rows, the most tokens of a generation. Prints the rollouts in a line of JSON.
"""

import json
import sys
import urllib.request

import vf_search

url, base_url, model, count, most = sys.argv[1:6]


def sample(turns):
    for turn in turns:
        asked = {
            "model": model,
            "prompt": turn["context_ids"],
            "max_tokens": turn["max_new_tokens"],
            "temperature": 0,
            "stop": turn["stop"],
            "include_stop_str_in_output": True,
            "logprobs": 0,
            "return_token_ids": True,
        }
        request = urllib.request.Request(f"{base_url}/completions", json.dumps(asked).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            [choice] = json.load(response)["choices"]
        yield {"token_ids": choice["token_ids"], "logprobs": choice["logprobs"]["token_logprobs"], "finish_reason": choice["finish_reason"]}


with vf_search.connect(url) as env:
    ids = [task["example_id"] for task in env.tasks()[: int(count)]]
    print(json.dumps(env.play(ids, sample, max_new_tokens=int(most), max_model_len=2048)))
