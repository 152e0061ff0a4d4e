"""For tests: VF_TORCH_MEMORY_LIMIT_TOKENS=FORWARD, FORWARD,BACKWARD or FORWARD,BACKWARD,EMBEDDING makes a rank with more tokens in a batch really run out of memory."""

import math
import os
from typing import Any

import torch


class MemoryLimit:
    def __init__(self) -> None:
        given = [float(part) for part in os.environ.get("VF_TORCH_MEMORY_LIMIT_TOKENS", "").split(",") if part]
        self.forward, self.backward, self.embedding = (*given, math.inf, math.inf, math.inf)[:3]

    @staticmethod
    def check(tokens: int, limit: float, device: Any) -> None:
        """Requests more memory than any machine has, so that the real allocator fails."""
        if tokens > limit:
            torch.empty(1 << 60, dtype=torch.uint8, device=device)
