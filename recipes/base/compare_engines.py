"""Checks that a base gives the same log-probs in plain torch, transformers and, with --vllm, a running vLLM server.

    python -m recipes.base.compare_engines models/nano-base [--protocol search-o1] [--vllm http://127.0.0.1:PORT/v1] [--tolerance 1e-5]

Exits with 1 if two engines differ by more than the tolerance on any token of 16 sampled episodes. Start the server without LoRA, because it
is asked for prompt log-probs (scripts/vllm-cpu/serve.sh models/nano-base).
"""

import json
import pathlib
import sys
import urllib.request

import torch
import transformers

from ..trunk.byte_pairs import load_tokenizer
from ..trunk.commands import command_parser
from ..trunk.model import forward, load_model
from .probe import Probe
from .protocols import PROTOCOLS, add_protocol_option
from .rollout import Player


def chosen(logits, ids):
    """Log-prob of every token but the first. [T - 1]"""
    return logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]


def vllm_log_probs(url, model, ids):
    body = {"model": model, "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0, "add_special_tokens": False}
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        entries = json.load(response)["choices"][0]["prompt_logprobs"]
    return torch.tensor([entry[str(token)]["logprob"] for entry, token in zip(entries[1:], ids[1:], strict=True)])


def main():
    parser = command_parser(__doc__)
    parser.add_argument("model", type=pathlib.Path, help="model directory")
    add_protocol_option(parser)
    parser.add_argument("--vllm", help="base URL of a server that serves this directory under its own name")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="in nats (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config, weights = load_model(arguments.model)
    tokenizer = load_tokenizer(arguments.model)
    reference = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    fast = transformers.AutoTokenizer.from_pretrained(arguments.model)
    protocol = PROTOCOLS[arguments.protocol]
    probe = Probe(config, weights, tokenizer, protocol)
    player = Player(*probe.parts, probe.search)
    rollouts = player.play(probe.questions[::15], generator=torch.Generator().manual_seed(0))
    worst = {"transformers": 0.0, "vllm": 0.0}
    for rollout in rollouts:
        ids = player.prefix + rollout.ids
        text = tokenizer.decode(ids, skip_special_tokens=False)
        if fast.encode(text, add_special_tokens=False) != tokenizer.encode(text, add_special_tokens=False).ids:
            raise ValueError(f"transformers and tokenizers disagree on the tokens of {text!r}")
        with torch.no_grad():
            ours = chosen(forward(config, weights, torch.tensor([ids]))[0], ids)
            theirs = {"transformers": chosen(reference(torch.tensor([ids])).logits[0], ids)}
        if arguments.vllm:
            theirs["vllm"] = vllm_log_probs(arguments.vllm.rstrip("/"), arguments.model.name, ids)
        for engine, values in theirs.items():
            worst[engine] = max(worst[engine], (values - ours).abs().max().item())
    tokens = sum(len(player.prefix) + len(rollout.ids) - 1 for rollout in rollouts)
    for engine, value in worst.items():
        if engine != "vllm" or arguments.vllm:
            print(f"{engine}: max |log-prob difference| {value:.2e} over {tokens} tokens")
    sys.exit(int(max(worst.values()) > arguments.tolerance))


if __name__ == "__main__":
    main()
