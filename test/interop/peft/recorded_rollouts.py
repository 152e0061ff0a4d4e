"""peft loads the adapters of a training run, and transformers computes the log-probs of the run's recorded rollouts with them.

argv: folder of the run, directory of the base model, then pairs `version file` with ascending versions: the rollouts of that file were sampled by that
version, which is the adapter of the checkpoint after as many steps (0: the base itself), because the run changed the weights at every step.
"""
import base64
import importlib.metadata
import json
import sys

import numpy
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

torch.set_num_threads(2)
run, directory, *pairs = sys.argv[1:]
sources = [(int(version), file) for version, file in zip(pairs[::2], pairs[1::2], strict=True)]


def array(line, name, kind):
    return torch.from_numpy(numpy.frombuffer(base64.b64decode(line[name]), kind).copy())


def rollouts(version, file):
    with open(f"{run}/{file}") as lines:
        found = [json.loads(line) for line in lines]
    found = [line for line in found if line.get("reward") is not None]
    assert found and all(line["policy_version"] == version for line in found), f"{file} has no rollouts, or some of another version"
    return found


@torch.no_grad()
def differences(model, lines):
    """|Δ log-prob| of every sampled token."""
    found = []
    for line in lines:
        ids, targets = array(line, "ids", "<i4").long(), array(line, "targets", "<i4").long()
        log_probs = model(ids[None]).logits[0].double().log_softmax(-1)
        found.append((log_probs[targets - 1, ids[targets]] - array(line, "log_probs", "<f8")).abs())
    return torch.cat(found)


def adapter(version):
    return f"{run}/checkpoints/step-{version:06}/adapter"


model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
versions = {}
for version, file in sources:
    lines = rollouts(version, file)
    if isinstance(model, PeftModel):
        model.load_adapter(adapter(version), adapter_name=str(version))
        model.set_adapter(str(version))
    elif version > 0:
        model = PeftModel.from_pretrained(model, adapter(version), adapter_name=str(version)).eval()
    found = differences(model, lines)
    versions[version] = {"largest": found.max().item(), "tokens": len(found), "rollouts": len(lines)}

with model.disable_adapter():
    without = differences(model, lines).max().item()
merged = differences(model.merge_and_unload(adapter_names=[str(version)]), lines).max().item()
print(
    json.dumps(
        {
            "peft": importlib.metadata.version("peft"),
            "transformers": importlib.metadata.version("transformers"),
            "torch": torch.__version__,
            "versions": versions,
            "without_adapter": without,
            "merged": merged,
        }
    )
)
