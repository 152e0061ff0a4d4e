"""skyrl-gym's own SearchEnv and its search client: an episode that searches and answers.

argv: URL of /retrieve, the query, the golden answer.
"""
import importlib.metadata
import json
import sys

from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig
from skyrl_gym.tools.search import call_search_api

url, query, answer = sys.argv[1:4]

response, error = call_search_api(url, query, topk=2, return_scores=True, log_requests=False)
env = SearchEnv(SearchEnvConfig(search_url=url, topk=2), extras={"reward_spec": {"ground_truth": {"target": [answer]}}, "max_turns": 3})
env.init([{"role": "user", "content": query}])
searched = env.step(f"<search>{query}</search>")
answered = env.step(f"<answer>{answer}</answer>")
print(
    json.dumps(
        {
            "version": importlib.metadata.version("skyrl-gym"),
            "response": response,
            "error": error,
            "observation": searched["observations"][0]["content"],
            "done": [searched["done"], answered["done"]],
            "rewards": [searched["reward"], answered["reward"]],
        }
    )
)
