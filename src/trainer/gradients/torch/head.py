"""Log-probs (and entropies) of chosen tokens from hidden states, without holding all logits at once.

The [M, V] logits of a long batch are the largest tensor in training. They are computed in chunks of rows, reduced and freed; backward recomputes
them. The softmax is float32 whatever the base's type.
"""

from typing import Any

import torch


def target_log_probs(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, targets: torch.Tensor, temperature: float, with_entropy: bool, rows: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """hidden [M, D], weight [V, D], bias [V], targets [M] int64. Natural-log probabilities [M] and entropies [M] in nats, float32, at the temperature."""
    log_probs, entropy = _Head.apply(hidden, weight, bias, targets, 1.0 / temperature, with_entropy, rows)
    return log_probs, entropy if with_entropy else None


def rows_of_chunk(vocabulary: int, device: torch.device) -> int:
    """Number of rows whose float32 logits take 1 GiB on a GPU (three such tensors are alive at once), 256 MiB elsewhere. Every chunk of a half-precision base
    on a CPU converts the head's weights, so small chunks cost more than they save."""
    budget = 1 << 30 if device.type == "cuda" else 1 << 28
    return max(16, budget // (4 * vocabulary))


def _logits(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, inverse_temperature: float) -> torch.Tensor:
    """[rows, V] float32. On CUDA, the product of half-precision matrices is returned as float32, unrounded."""
    if hidden.dtype == torch.float32:
        logits = hidden @ weight.t()
    elif hidden.device.type == "cuda":
        logits = torch.mm(hidden, weight.t(), out_dtype=torch.float32)
    else:
        logits = hidden.float() @ weight.t().float()
    if bias is not None:
        logits += bias
    return logits.mul_(inverse_temperature) if inverse_temperature != 1.0 else logits


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        inverse_temperature: float,
        with_entropy: bool,
        rows: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        count = hidden.shape[0]
        log_probs = torch.empty(count, dtype=torch.float32, device=hidden.device)
        log_sums = torch.empty_like(log_probs)
        entropy = torch.zeros_like(log_probs)
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            logits = _logits(hidden[part], weight, bias, inverse_temperature)
            log_sums[part] = torch.logsumexp(logits, dim=-1)
            log_probs[part] = logits.gather(1, targets[part, None])[:, 0] - log_sums[part]
            if with_entropy:
                # H = lse - sum(p z). The product may overwrite p but not the logits.
                p = torch.sub(logits, log_sums[part, None]).exp_()
                entropy[part] = log_sums[part] - p.mul_(logits).sum(-1)
                del p
            # Otherwise these logits stay in memory while the next chunk's are computed.
            del logits
        ctx.save_for_backward(hidden, weight, bias, targets, log_sums, entropy)
        ctx.inverse_temperature, ctx.with_entropy, ctx.rows = inverse_temperature, with_entropy, rows
        return log_probs, entropy

    @staticmethod
    def backward(ctx: Any, d_log_probs: torch.Tensor, d_entropy: torch.Tensor) -> tuple[Any, ...]:
        """dlogp/dz = onehot - p and dH/dz = -p (log p + H); z = logits / temperature."""
        hidden, weight, bias, targets, log_sums, entropy = ctx.saved_tensors
        d_hidden = torch.empty_like(hidden)
        for start in range(0, hidden.shape[0], ctx.rows):
            part = slice(start, start + ctx.rows)
            g = d_log_probs[part, None]
            log_p = _logits(hidden[part], weight, bias, ctx.inverse_temperature).sub_(log_sums[part, None])
            p = torch.exp(log_p) if ctx.with_entropy else log_p.exp_()
            if ctx.with_entropy:
                d_logits = p.mul_(log_p.add_(entropy[part, None]).mul_(d_entropy[part, None]).add_(g)).neg_()
            else:
                d_logits = p.mul_(-g)
            del p, log_p
            d_logits.scatter_add_(1, targets[part, None], g)
            d_hidden[part] = d_logits.mul_(ctx.inverse_temperature).to(weight.dtype) @ weight
            del d_logits
        return d_hidden, None, None, None, None, None, None
