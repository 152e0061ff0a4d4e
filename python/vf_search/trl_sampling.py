"""Samples for open turns with what TRL's trainer has: its own model, or its vLLM."""

from typing import Any

import torch
from transformers import LogitsProcessor
from trl.models import unwrap_model_for_generation

from .errors import VfSearchError


class _SampledLogProbs(LogitsProcessor):  # type: ignore[misc]
    """Keeps the log-prob of each sampled token at the trainer's temperature, and of one step's logits only what is needed for it."""

    def __init__(self, temperature: float) -> None:
        self.temperature, self.last, self.taken = temperature, None, []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.take(input_ids)
        self.last = torch.log_softmax(scores.float() / self.temperature, -1)
        return scores

    def take(self, input_ids: Any) -> None:
        if self.last is not None:
            self.taken.append(self.last.gather(1, input_ids[:, -1:]).squeeze(1))


@torch.no_grad()
def from_model(trainer: Any, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples with the trainer's own model, all turns in one batch. Each row ends at a stop string, EOS or its limit."""
    tokenizer, pad, contexts = trainer._tokenizer, trainer._tokenizer.pad_token_id, [turn["context_ids"] for turn in turns]
    width = max(map(len, contexts))
    ids = torch.tensor([[pad] * (width - len(context)) + context for context in contexts], device=trainer.accelerator.device)
    seen = torch.tensor([[0] * (width - len(context)) + [1] * len(context) for context in contexts], device=ids.device)
    most = max(turn["max_new_tokens"] for turn in turns)
    stops = sorted({stop for turn in turns for stop in turn["stop"]})
    kept = _SampledLogProbs(trainer.temperature)
    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
        was_training = model.training
        model.eval()
        options = {"stop_strings": stops, "tokenizer": tokenizer} if stops else {}
        out = model.generate(input_ids=ids, attention_mask=seen, generation_config=trainer.generation_config, max_new_tokens=most, logits_processor=[kept], **options)
        model.train(was_training)
    kept.take(out)
    logprobs = torch.stack(kept.taken, 1).tolist()
    return [_sample(turn, row, values, trainer) for turn, row, values in zip(turns, out[:, width:].tolist(), logprobs, strict=True)]


def from_vllm(trainer: Any, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples with the trainer's vLLM. It samples past stop strings, and the environment cuts there, unless `generation_kwargs` has them as `stop`."""
    if trainer.accelerator.num_processes > 1 and trainer.vllm_generation.mode == "server":
        raise VfSearchError("With vLLM in server mode all processes must sample at once, but episodes end at different turns. Use vllm_mode='colocate'.")
    _, completions, logprobs, _ = trainer.vllm_generation.generate([turn["context_ids"] for turn in turns], None, num_generations=1)
    rows = zip(turns, completions, logprobs, strict=True)
    return [_sample(turn, list(ids), [value[0] for value in values], trainer) for turn, ids, values in rows]


def _sample(turn: dict[str, Any], ids: list[int], logprobs: list[float], trainer: Any) -> dict[str, Any]:
    """Without what follows its end, and within the turn's limit. A row that ended before the others is padded."""
    end = next((i + 1 for i, token in enumerate(ids) if token in trainer.eos_token_ids), len(ids))
    while end > 0 and ids[end - 1] == trainer._tokenizer.pad_token_id and ids[end - 1] not in trainer.eos_token_ids:
        end -= 1
    most = turn["max_new_tokens"]
    finish = "length" if end >= most and not (end == most and ids[end - 1] in trainer.eos_token_ids) else "stop"
    end = min(end, most)
    return {"token_ids": ids[:end], "logprobs": [min(value, 0.0) for value in logprobs[:end]], "finish_reason": finish}
