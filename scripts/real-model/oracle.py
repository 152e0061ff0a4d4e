"""The results of transformers itself for a model directory: the ids of texts, and the log-probs of sequences in float32.

Reads {"model", "texts": [str], "sequences": [{"ids": [int], "targets": [int]}], "threads"} on stdin, writes {"ids": [[int]], "log_probs": [[float]]}.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    asked = json.load(sys.stdin)
    torch.set_num_threads(asked["threads"])
    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    model = AutoModelForCausalLM.from_pretrained(asked["model"], dtype=torch.float32).eval()
    json.dump(
        {
            "ids": [tokenizer(text).input_ids for text in asked["texts"]],
            "log_probs": [log_probs(model, sequence["ids"], sequence["targets"]) for sequence in asked["sequences"]],
        },
        sys.stdout,
    )


def log_probs(model: torch.nn.Module, ids: list[int], targets: list[int]) -> list[float]:
    """Each target is predicted by the position before it."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0]
    places = torch.tensor(targets)
    return torch.log_softmax(logits[places - 1], dim=-1).gather(1, torch.tensor(ids)[places][:, None])[:, 0].tolist()


if __name__ == "__main__":
    main()
