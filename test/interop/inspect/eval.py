"""`inspect eval vf_search/environment` as a command, with vf_search installed, and its log read by Inspect.

argv: the repository, URL of the model, then arguments of the command.
"""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import tomllib

root, model_url, *arguments = sys.argv[1:]
project = tomllib.load(open(os.path.join(root, "python/pyproject.toml"), "rb"))["project"]

# An installation as pip leaves it: Inspect finds tasks through the entry points of what is in site-packages.
packages = os.path.join(tempfile.mkdtemp(dir="."), "site-packages")
about = os.path.join(packages, f"vf_search-{project['version']}.dist-info")
os.makedirs(about)
os.symlink(os.path.join(root, "python/vf_search"), os.path.join(packages, "vf_search"))
with open(os.path.join(about, "METADATA"), "w") as file:
    file.write(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
with open(os.path.join(about, "entry_points.txt"), "w") as file:
    for group, points in project["entry-points"].items():
        file.write(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()))

logs = os.path.abspath("logs")
command = [os.path.join(os.path.dirname(sys.executable), "inspect"), "eval", "vf_search/environment"]
options = ["--model", "openai-api/vllm/nano-base", "--model-base-url", model_url, "--temperature", "0", "--log-dir", logs, "--display", "plain"]
env = os.environ | {"PYTHONPATH": os.path.abspath(packages), "VLLM_API_KEY": "none"}
run = subprocess.run([*command, *options, *arguments], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

from inspect_ai.log import list_eval_logs, read_eval_log

files = list_eval_logs(logs)
if len(files) != 1:
    sys.exit(f"inspect eval wrote {len(files)} logs and said:\n{run.stdout}")
log = read_eval_log(files[0])
print(
    json.dumps(
        {
            "version": importlib.metadata.version("inspect-ai"),
            "exit": run.returncode,
            "printed": run.stdout[-20000:],
            "status": log.status,
            "scored": log.results.completed_samples if log.results else 0,
            "means": {each.name: [each.metrics["mean"].value, each.metrics["stderr"].value] for each in (log.results.scores if log.results else [])},
            "samples": [
                {
                    "id": sample.id,
                    "error": sample.error.message if sample.error else None,
                    "scores": [score.value for score in (sample.scores or {}).values()],
                    "metadata": [score.metadata for score in (sample.scores or {}).values()],
                    "messages": [[message.role, message.text] for message in sample.messages],
                }
                for sample in log.samples or []
            ],
        }
    )
)
