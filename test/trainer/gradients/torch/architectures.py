"""The worker's packed forward and backward over small random models of many architectures, held against transformers' own eager ones, one sequence at a time.

Reads from stdin {"worker": DIR, "configs": {name: config}}, writes {name: {"refused": text} or {"log_probs", "base", "gradient": largest difference}}.
"""

import json
import sys
import tempfile

import numpy
import torch
from torch import nn

LENGTHS = (29, 7, 1, 40)
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
TEMPERATURE = 0.7


class Plain(nn.Module):
    """A linear layer and an adapter as the papers write them."""

    def __init__(self, base, layer):
        super().__init__()
        self.base, self.scale = base, layer.scale
        self.a, self.b = (nn.Parameter(x.detach().clone()) for x in (layer.lora_A, layer.lora_B))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.t() @ self.b.t())


def made(config):
    """A directory with a model whose weights are far from their small initial ones, norms and biases included."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            flat = parameter.dim() == 1
            parameter.add_(0.3 * torch.randn_like(parameter)) if flat or "sinks" in name else parameter.mul_(3)
    directory = tempfile.mkdtemp()
    model.save_pretrained(directory)
    return directory


def plain_log_probs(model, sequences):
    parts = []
    for ids in (ids for ids in sequences if len(ids) > 1):
        logits = model(input_ids=ids[None]).logits[0, :-1] / TEMPERATURE
        parts.append(logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0])
    return torch.cat(parts)


def compare(config):
    from base import load_base
    from failure import Failure
    from lora import attach
    from batch import Batch
    from model import Model
    from transformers import AutoModelForCausalLM

    directory = made(config)
    try:
        base = load_base(directory, torch.device("cpu"), torch.float32, False)
    except Failure as failure:
        return {"refused": failure.text}
    linears = {path.rpartition(".")[2] for path, module in base.model.named_modules() if isinstance(module, nn.Linear)}
    # Experts are stacked, not linear layers.
    adapter = attach(base, 4, 8.0, [name for name in TARGETS if name in linears], 3)
    with torch.no_grad():
        for layer in adapter.layers.values():
            layer.lora_B.normal_(0, 0.05)
    worker = Model(base, adapter)
    sequences = [torch.randint(0, base.vocabulary, (length,)) for length in LENGTHS]
    offsets = numpy.cumsum([0, *LENGTHS]).astype(numpy.int32)
    targets = numpy.concatenate([numpy.arange(a + 1, b) for a, b in zip(offsets, offsets[1:])]).astype(numpy.int32)
    batch = Batch(torch.cat(sequences).numpy().astype(numpy.int32), offsets, targets, TEMPERATURE)
    slopes = torch.randn(len(targets))
    found, _ = worker.forward(batch, "one", "on", False)
    found_base, _ = worker.forward(batch, None, "off", False)
    worker.backward("one", slopes.numpy(), None)

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").requires_grad_(False).eval()
    own_base = plain_log_probs(model, sequences)
    plain = {path: Plain(model.get_submodule(path), layer) for path, layer in adapter.layers.items()}
    for path, layer in plain.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, layer)
    own = plain_log_probs(model, sequences)
    (own * slopes).sum().backward()
    pairs = [(adapter.layers[path].lora_A.grad, layer.a.grad) for path, layer in plain.items()]
    pairs += [(adapter.layers[path].lora_B.grad, layer.b.grad) for path, layer in plain.items()]
    squared = sum(float((x - y).square().sum()) for x, y in pairs) / sum(float(y.square().sum()) for _, y in pairs)
    return {
        "log_probs": float((torch.from_numpy(found) - own.detach()).abs().max()),
        "base": float((torch.from_numpy(found_base) - own_base).abs().max()),
        "gradient": squared**0.5,
    }


def main():
    request = json.load(sys.stdin)
    sys.path.insert(0, request["worker"])
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    json.dump({name: compare(config) for name, config in request["configs"].items()}, sys.stdout)


if __name__ == "__main__":
    main()
