"""huggingface_hub and peft read an adapter's directory as its user would publish it: the card, its metadata, and PEFT's configuration.

argv: an adapter's directory. Prints the card's metadata and what peft reads; fails on metadata that the hub would refuse, if that shows without it,
and on a path of this machine.
"""
import importlib.metadata
import json
import re
import sys
from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.utils import validate_repo_id
from peft import PeftConfig

folder = Path(sys.argv[1])
card = ModelCard.load(folder / "README.md")
data = card.data
assert isinstance(data, ModelCardData), type(data)
assert data.library_name == "peft" and data.pipeline_tag == "text-generation", data.to_dict()
assert isinstance(data.tags, list) and all(isinstance(tag, str) for tag in data.tags), data.tags
if data.base_model is not None:
    # The hub takes ids alone, and so does this check.
    validate_repo_id(data.base_model)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", data.base_model), data.base_model
assert data.license is None or re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", data.license), data.license
# What is written again means the same.
assert ModelCardData(**data.to_dict()).to_dict() == data.to_dict()
for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", card.text):
    assert (folder / image).is_file(), f"{image} is not next to the card"

config = PeftConfig.from_pretrained(str(folder))
base = config.base_model_name_or_path
assert config.peft_type == "LORA" and not Path(base).is_absolute(), base
print(
    json.dumps(
        {
            "versions": {name: importlib.metadata.version(name) for name in ("huggingface-hub", "peft")},
            "data": data.to_dict(),
            "tables": len(re.findall(r"^\|---", card.text, re.MULTILINE)),
            "base_model_name_or_path": base,
            "rank": config.r,
        }
    )
)
