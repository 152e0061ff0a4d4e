"""
The rows that `python -m vf_search.verl_rows` writes, read by verl's own data set.

argv: the repository, environment, split, its arguments as JSON.
"""
import importlib.metadata
import json
import os
import subprocess
import sys

root, env, split, args = sys.argv[1:]
path = os.path.abspath("rows.parquet")
environ = os.environ | {"PYTHONPATH": os.path.join(root, "python")}
subprocess.run([sys.executable, "-m", "vf_search.verl_rows", env, split, path, args], cwd=root, env=environ, check=True, stdout=sys.stderr)

from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset

config = OmegaConf.create({"filter_overlong_prompts": False, "max_prompt_length": 512, "cache_dir": os.path.abspath("cache")})
dataset = RLHFDataset(path, AutoTokenizer.from_pretrained(os.path.join(root, "models/nano-base")), config)
row = {name: value for name, value in dataset[0].items() if isinstance(value, (str, int, list, dict))}
print(json.dumps({"version": importlib.metadata.version("verl"), "count": len(dataset), "row": row}))
