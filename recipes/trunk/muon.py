"""Muon: steps of matrices by their orthogonalised momentum. Matrices of one shape take each step together, in float32: torch.optim.Muon takes them one by one
in bfloat16, which is slow on a CPU."""

import collections

import torch

# The coefficients of the quintic iteration, by Keller Jordan.
A, B, C = 3.4445, -4.7750, 2.0315
ITERATIONS = 5
EPSILON = 1e-7


def orthogonalised(x):
    """[N, R, C] to matrices with singular values near 1, R <= C."""
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + EPSILON)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """`lr` is of the size that AdamW takes: a step of a matrix has a root mean square of 0.2 lr."""

    def __init__(self, matrices, lr, momentum=0.95, weight_decay=0.02):
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            same = collections.defaultdict(list)
            for matrix in group["params"]:
                same[tuple(sorted(matrix.shape))].append(matrix)
            for (short, long), matrices in same.items():
                updates = orthogonalised(torch.stack([self.averaged(matrix, group["momentum"]) for matrix in matrices]))
                size = 0.2 * max(short, long) ** 0.5
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.add_(update if matrix.shape[0] == short else update.mT, alpha=-group["lr"] * size)

    def averaged(self, matrix, momentum):
        """Nesterov's momentum of the gradient, lying on its long side."""
        average = self.state[matrix].setdefault("average", torch.zeros_like(matrix))
        average.lerp_(matrix.grad, 1 - momentum)
        value = matrix.grad.lerp(average, momentum)
        return value if value.shape[0] <= value.shape[1] else value.mT
