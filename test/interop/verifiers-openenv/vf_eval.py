"""verifiers' own taskset `openenv` with its vf-eval. Arguments: the OpenEnv server's URL, the policy's base URL, the resets as TOML."""

import json
import pathlib
import subprocess
import sys
from importlib.metadata import version

url, base_url, resets = sys.argv[1:]
pathlib.Path("run.toml").write_text(f"""
model = "scripted"
push = false
output_dir = "out"
[client]
base_url = "{base_url}"
[env.taskset]
id = "openenv"
base_url = "{url}"
resets = {resets}
[env.player.harness]
id = "null"
[env.player.runtime]
type = "subprocess"
""")
program = pathlib.Path(sys.executable).with_name("vf-eval")
subprocess.run([program, "@", "run.toml"], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
[file] = pathlib.Path("out").glob("*/traces.jsonl")
traces = [trace for line in file.read_text().splitlines() for trace in json.loads(line)["traces"]]
result = [
    {
        "reset": trace["task"]["data"]["reset"],
        "ok": trace["ok"],
        "reward": trace["rewards"].get("openenv_reward"),
        "errors": trace["errors"],
        "messages": [[node["message"]["role"], node["message"]["content"]] for node in trace["nodes"]],
    }
    for trace in traces
]
print(json.dumps({"version": version("verifiers"), "openenv": version("openenv"), "traces": result}))
