"""What every check works on: the device, the shapes of plan.json, models of random weights, batches, and the worker's calls in this process."""

import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

WORKER = Path(__file__).resolve().parents[2] / "src/trainer/gradients/torch"
PLAN = Path(__file__).resolve().parent / "plan.json"
ADAPTER_SEED = 7


@dataclass(frozen=True)
class Row:
    """One line of the table. `measured` and `bound` have the unit that `text` names; a row passes if measured <= bound."""

    case: str
    status: str
    measured: float | None = None
    bound: float | None = None
    text: str = ""


def judged(case: str, measured: float, bound: float, text: str) -> Row:
    # Written so that NaN fails.
    return Row(case, "passed" if measured <= bound else "failed", measured, bound, text)


@dataclass(frozen=True)
class Setting:
    """`device`: cpu, cuda or cuda:N. `tiny`: the shapes for a CPU. `folder`: of this check alone."""

    device: str
    tiny: bool
    folder: Path
    plan: dict[str, Any]

    @property
    def is_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def config(self, shape: str, layers: int | None = None) -> dict[str, Any]:
        own = self.plan["shapes"][shape]["config"]
        return own if layers is None else {**own, "num_hidden_layers": min(layers, own["num_hidden_layers"])}

    def dtypes(self) -> tuple[str, ...]:
        return ("bfloat16", "float32")


def read_plan() -> dict[str, Any]:
    return json.loads(PLAN.read_text())


class Refused(Exception):
    """A call of the worker failed. `code` is one of failure.py's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Worker:
    """The worker's own calls and its own way to answer them, failures included, without its process."""

    def __init__(
        self, setting: Setting, path: Path, *, dtype: str, checkpointing: bool = False, attention: str = "auto", random_seed: int | None = None, fills_b: bool = True
    ) -> None:
        import worker
        from calls import PROTOCOL, Calls

        self.setting, self.answer, self.calls = setting, worker.answer, Calls(writes_bytecode=False)
        self.hello = self("hello", protocol=PROTOCOL, device=setting.device, dtype=dtype, threads=None)
        self("load_base", path=str(path), gradient_checkpointing=checkpointing, attention=attention, random_seed=random_seed)
        rank = setting.plan["rank"]
        self("create_adapter", rank=rank, alpha=2.0 * rank, targets=setting.plan["targets"], seed=ADAPTER_SEED, initial=None)
        if fills_b:
            self._fill_b()

    def __call__(self, call: str, arrays: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """Returns the answer's fields and arrays. Raises Refused for a failure."""
        reply, out = self.answer(self.calls, {"id": 0, "call": call, **fields}, arrays or {})
        if not reply["ok"]:
            raise Refused(reply["code"], reply["text"])
        return {**reply, **out}

    def forward(self, batch: Any, *, retain: bool = True, entropy: bool = False) -> dict[str, Any]:
        arrays = {"ids": batch.ids, "offsets": batch.offsets, "targets": batch.targets}
        return self("forward", arrays, temperature=batch.temperature, batch_id="batch", retain=retain, adapter="on", entropy=entropy)

    def backward(self, d_log_probs: Any, d_entropy: Any = None) -> None:
        self("backward", {"d_log_probs": d_log_probs, **({} if d_entropy is None else {"d_entropy": d_entropy})}, batch_id="batch")

    def step(self) -> dict[str, Any]:
        return self("optim_step", learning_rate=1e-4, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0)

    @property
    def parameters(self) -> dict[str, Any]:
        return self.calls.model.parameters

    def gradients(self) -> dict[str, Any]:
        """A copy of the accumulated gradient on the host, in float64; it stays as it is."""
        return {name: parameter.grad.detach().cpu().double() for name, parameter in self.parameters.items()}

    def close(self) -> None:
        """Frees the base, the adapter and their memory on the device."""
        self.calls.model = self.calls.parallel = self.calls.base = None
        self("release")

    def _fill_b(self) -> None:
        """B is 0 at the start of a run, so that A would have no gradient."""
        import torch

        generator = torch.Generator().manual_seed(ADAPTER_SEED)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                if name.endswith("lora_B"):
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)


def deterministic_worker(setting: Setting, shape: str, layers: int) -> tuple[Worker, dict[str, Any]]:
    """A worker whose repetitions are equal, and the config of its model."""
    import torch

    # cuBLAS reads the variable when it starts.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True, warn_only=True)
    config = setting.config(shape, layers)
    return Worker(setting, write_config(setting.folder / shape, config), dtype="auto", random_seed=0), config


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    """A directory for `random_seed`: a configuration without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_model(folder: Path, config: dict[str, Any], device: str) -> Path:
    """A model directory with weights at random. Norms and biases are not left at 1 and 0, where a mistake in them would not show."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    write_config(folder, config)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(str(folder)), dtype=torch.bfloat16)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("norm.weight"):
                    parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
                elif name.endswith(".bias"):
                    parameter.copy_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(str(folder))
    return folder


def make_batch(vocabulary: int, lengths: list[int], temperature: float = 1.0, seed: int = 0) -> Any:
    """Random sequences; every token but each first is a target."""
    import numpy
    from batch import Batch

    random = numpy.random.default_rng(seed)
    offsets = numpy.cumsum([0, *lengths]).astype(numpy.int32)
    targets = numpy.setdiff1d(numpy.arange(offsets[-1], dtype=numpy.int32), offsets)
    return Batch(random.integers(0, vocabulary, int(offsets[-1]), dtype=numpy.int32), offsets, targets, temperature)


def gradient_of_loss(batch: Any, seed: int = 1) -> Any:
    """What a loss could pass to backward. [M] float32."""
    import numpy

    return (numpy.random.default_rng(seed).standard_normal(len(batch.targets)) / len(batch.targets)).astype(numpy.float32)


def single_sequences(batch: Any) -> Iterator[tuple[Any, slice]]:
    """Each sequence as a batch of its own, and the places of its targets among all targets."""
    import numpy
    from batch import Batch

    for start, end in zip(batch.offsets, batch.offsets[1:]):
        first, last = numpy.searchsorted(batch.targets, [start, end])
        own = (batch.targets[first:last] - start).astype(numpy.int32)
        yield Batch(batch.ids[start:end], numpy.array([0, end - start], numpy.int32), own, batch.temperature), slice(int(first), int(last))


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """Norm of the difference over the norm of `wanted`, all tensors together."""
    off = sum(float(((found[name] - wanted[name]) ** 2).sum()) for name in wanted)
    return (off / sum(float((tensor**2).sum()) for tensor in wanted.values())) ** 0.5


def quiet() -> None:
    """What every process of the check needs before torch is imported: as in worker.py, whose modules become importable."""
    sys.path.insert(0, str(WORKER))
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore")
    # Otherwise a library that asks whether there is a GPU would make all forks unable to use it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    # As in worker.py.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Of transformers, whose bars would hide the results.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
