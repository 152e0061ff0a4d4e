"""`vf-eval vf-search` of verifiers 0.1.14 as a command.

argv: the repository, folder for results, environment's arguments as JSON, URL of the model, then arguments of the command.
"""
import importlib.metadata
import json
import os
import subprocess
import sys

root, folder, args, url, *arguments = sys.argv[1:]
command = [os.path.join(os.path.dirname(sys.executable), "vf-eval"), "vf-search", "-a", args, "-m", "nano-base", "-b", url, "-T", "0", "-s", "-o", folder]
env = os.environ | {"PYTHONPATH": os.path.join(root, "python")}
run = subprocess.run([*command, *arguments], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
if run.returncode != 0:
    sys.exit(run.stdout)
print(json.dumps({"version": importlib.metadata.version("verifiers"), "printed": run.stdout[-20000:]}))
