"""Breaks the worker in one way after the other and writes which checks of gpu-check then fail: `{fault: [names of failed rows]}` as JSON on stdout.
Arguments name the faults; without any, all are tried."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/gpu-check"))
import bench  # noqa: E402

bench.quiet()
import attention  # noqa: E402
import failure  # noqa: E402
import lora  # noqa: E402
import model  # noqa: E402
import state_files  # noqa: E402
import torch  # noqa: E402
from bench import Setting  # noqa: E402
from checks import CHECKS  # noqa: E402

own_attention, own_head, own_add = attention._causal, model.target_log_probs, model.Model.add


def looks_back_twice(q: Any, k: Any, v: Any, scaling: Any, window: Any) -> Any:
    return own_attention(q, k, v, scaling, 16)


def forgets_temperature(hidden: Any, weight: Any, bias: Any, targets: Any, temperature: float, with_entropy: bool, rows: int) -> Any:
    return own_head(hidden, weight, bias, targets, 1.0, with_entropy, rows)


def loses_what_was_there(self: Any, new: Any) -> None:
    self.zero_grad()
    own_add(self, new)


def shares_sequences(setting: Setting) -> None:
    own = attention.Layout

    class OneSequence(own):  # type: ignore[misc, valid-type]
        def __init__(self, bounds: Any, cu: Any, longest: int, kernel: str) -> None:
            super().__init__((0, bounds[-1]), cu, longest, kernel)

    model.Layout = OneSequence


def forgets_random_state(setting: Setting) -> None:
    state_files.torch = type("Torch", (), {"__getattr__": lambda _, name: (lambda *__: None) if name == "set_rng_state" else getattr(torch, name)})()


def knows_no_memory(error: BaseException) -> failure.Failure:
    return failure.Failure("internal", str(error))


def changed(owner: Any, name: str, value: Any) -> Callable[[Setting], None]:
    return lambda setting: setattr(owner, name, value)


def plans_too_little(setting: Setting) -> None:
    for case in setting.plan["shapes"]["tiny-qwen3"]["memory"]:
        case["bytes"]["total"] *= 0.8


FAULTS: dict[str, tuple[str, Callable[[Setting], None]]] = {
    "attention across sequences": ("numbers", shares_sequences),
    "attention in a window": ("numbers", changed(attention, "_causal", looks_back_twice)),
    "temperature forgotten": ("numbers", changed(model, "target_log_probs", forgets_temperature)),
    "gradient of the last batch alone": ("numbers", changed(model.Model, "add", loses_what_was_there)),
    "random state forgotten": ("state", forgets_random_state),
    "memory errors unknown": ("recovery", changed(failure, "classify", knows_no_memory)),
    "plan a fifth too low": ("memory", plans_too_little),
    "nothing": ("numbers", lambda _: None),
}


def failed_rows(check: str, break_it: Callable[[Setting], None]) -> list[str]:
    """In a fork, which takes its fault with it."""
    read, write = os.pipe()
    if os.fork() == 0:
        with tempfile.TemporaryDirectory() as folder, os.fdopen(write, "w") as pipe:
            setting = Setting("cpu", True, Path(folder), bench.read_plan())
            break_it(setting)
            try:
                rows = [row.case for row in CHECKS[check].load()(setting, "tiny-qwen3") if row.status == "failed"]
            except Exception as error:
                rows = [f"{type(error).__name__}: {error}"]
            json.dump(rows, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return json.load(pipe)


if __name__ == "__main__":
    json.dump({fault: failed_rows(*FAULTS[fault]) for fault in sys.argv[1:] or FAULTS}, sys.stdout)
