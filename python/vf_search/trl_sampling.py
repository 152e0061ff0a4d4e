"""Samples for open turns with the means of TRL's trainer: its own model, or its vLLM."""

import copy
from typing import Any

import torch
from transformers import LogitsProcessor
from trl.models.utils import unwrap_model_for_generation

from .errors import VfSearchError


_TOGETHER = "With this set-up all processes must sample at once, but their episodes end at different turns."


class _SampledLogProbs(LogitsProcessor):  # type: ignore[misc]
    """Keeps the log-prob of each sampled token at the trainer's temperature, and only the part of a step's logits that is needed for it."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.last: torch.Tensor | None = None
        self.taken: list[torch.Tensor] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.take(input_ids)
        self.last = torch.log_softmax(scores.float() / self.temperature, -1)
        return scores

    def take(self, input_ids: Any) -> None:
        if self.last is not None:
            self.taken.append(self.last.gather(1, input_ids[:, -1:]).squeeze(1))


@torch.no_grad()
def from_model(trainer: Any, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples with the trainer's own model, all turns with the same stop strings in one batch. Each row ends at a stop string, EOS or its limit."""
    if trainer.accelerator.num_processes > 1 and (trainer._dist.is_zero3 or trainer._dist.is_fsdp):
        raise VfSearchError(f"{_TOGETHER} Train with DDP or ZeRO 1 or 2, or with use_vllm=True and vllm_mode='colocate'.")
    if any(turn["stop"] != turns[0]["stop"] for turn in turns):
        return _apart(trainer, turns)
    tokenizer, pad, contexts = trainer._tokenizer, trainer._tokenizer.pad_token_id, [turn["context_ids"] for turn in turns]
    width = max(map(len, contexts))
    ids = torch.tensor([[pad] * (width - len(context)) + context for context in contexts], device=trainer.accelerator.device)
    seen = torch.tensor([[0] * (width - len(context)) + [1] * len(context) for context in contexts], device=ids.device)
    most = max(turn["max_new_tokens"] for turn in turns)
    stops = turns[0]["stop"]
    kept = _SampledLogProbs(trainer.temperature)
    checkpointing = trainer.args.gradient_checkpointing_kwargs
    with unwrap_model_for_generation(
        trainer.model_wrapped, trainer.accelerator, generation_kwargs=trainer.generation_kwargs, gradient_checkpointing_kwargs=checkpointing
    ) as model:
        was_training = model.training
        model.eval()
        config = copy.deepcopy(trainer.generation_config)
        config.update(max_new_tokens=most, stop_strings=stops or None)
        out = model.generate(input_ids=ids, attention_mask=seen, generation_config=config, logits_processor=[kept], tokenizer=tokenizer)
        model.train(was_training)
    kept.take(out)
    logprobs = torch.stack(kept.taken, 1).tolist()
    return [_sample(turn, row, values, trainer) for turn, row, values in zip(turns, out[:, width:].tolist(), logprobs, strict=True)]


def from_vllm(trainer: Any, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples with the trainer's vLLM, whose weights TRL has brought up to date. Each row ends at a stop string, EOS or its limit."""
    vllm = trainer.vllm_generation
    if trainer.accelerator.num_processes > 1 and (vllm.mode == "server" or vllm.tensor_parallel_size > 1):
        raise VfSearchError(f"{_TOGETHER} Use vllm_mode='colocate' with vllm_tensor_parallel_size=1.")
    if any(turn["stop"] != turns[0]["stop"] for turn in turns):
        return _apart(trainer, turns)
    common, most = vllm.generation_kwargs, max(turn["max_new_tokens"] for turn in turns)
    # The stop string's tokens belong to the sample: the environment itself cuts there.
    stops = {"stop": turns[0]["stop"], "include_stop_str_in_output": True} if turns[0]["stop"] else {}
    vllm.generation_kwargs = {**common, **stops, "max_tokens": most}
    try:
        _, completions, logprobs, _ = vllm.generate([turn["context_ids"] for turn in turns], None, num_generations=1)
    finally:
        vllm.generation_kwargs = common
    rows = zip(turns, completions, logprobs, strict=True)
    return [_sample(turn, list(ids), [value[0] for value in values], trainer) for turn, ids, values in rows]


def _apart(trainer: Any, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A batch for each set of stop strings."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place, turn in enumerate(turns):
        places.setdefault(tuple(turn["stop"]), []).append(place)
    sample = from_vllm if trainer.use_vllm else from_model
    samples = {place: each for same in places.values() for place, each in zip(same, sample(trainer, [turns[place] for place in same]), strict=True)}
    return [samples[place] for place in range(len(turns))]


def _sample(turn: dict[str, Any], ids: list[int], logprobs: list[float], trainer: Any) -> dict[str, Any]:
    """The row without the tokens after its end, and within the turn's limit. A row that ended before the others is padded."""
    end = next((i + 1 for i, token in enumerate(ids) if token in trainer.eos_token_ids), len(ids))
    while end > 0 and ids[end - 1] == trainer._tokenizer.pad_token_id and ids[end - 1] not in trainer.eos_token_ids:
        end -= 1
    most = turn["max_new_tokens"]
    finish = "length" if end >= most and not (end == most and ids[end - 1] in trainer.eos_token_ids) else "stop"
    end = min(end, most)
    return {"token_ids": ids[:end], "logprobs": [min(value, 0.0) for value in logprobs[:end]], "finish_reason": finish}
