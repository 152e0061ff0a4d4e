"""verifiers' own vf-eval over the taskset `vf-search-v1`. Arguments: the server's address, the policy's base URL, the model."""

import json
import pathlib
import subprocess
import sys
from importlib.metadata import version

address, base_url, model = sys.argv[1:]
pathlib.Path("run.toml").write_text(f"""
model = "{model}"
num_rollouts = 2
push = false
output_dir = "out"
[select]
limit = 3
[client]
base_url = "{base_url}"
api_key_var = "VLLM_API_KEY"
[sampling]
temperature = 1.0
max_tokens = 48
[env.taskset]
id = "vf-search-v1"
address = "{address}"
""")
subprocess.run([pathlib.Path(sys.executable).with_name("vf-eval"), "@", "run.toml"], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
[file] = pathlib.Path("out").glob("*/traces.jsonl")
episodes = [json.loads(line) for line in file.read_text().splitlines()]
traces = [trace for episode in episodes for trace in episode["traces"]]
traces = [{"key": t["task"]["key"], "ok": t["ok"], "rewards": t["rewards"]} for t in traces]
print(json.dumps({"version": version("verifiers"), "traces": traces}))
