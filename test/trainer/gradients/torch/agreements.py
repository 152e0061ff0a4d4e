"""Two ranks of ranks.py that fail alike, differently or alone. Prints, as JSON, what every act ended with on each rank; and how divide() divides.

Arguments: a folder, a model. Started without RANK it starts both ranks.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "src/trainer/gradients/torch"))

MODEL = sys.argv[2]
ACTS = {
    "both succeed": (None, None),
    "rank 1 alone, not finite": (None, "not_finite"),
    "rank 0 alone, out of memory": ("out_of_memory", None),
    "both, alike": ("bad_input", "bad_input"),
    "out of memory and an error": ("out_of_memory", "internal"),
    "an unknown exception": (None, "ValueError"),
}


def act(code):
    from failure import Failure

    if code == "ValueError":
        raise ValueError("broken\npipe")
    if code is not None:
        raise Failure(code, f"it is {code}")
    return "done"


def sharded(ranks):
    """The share of each layer that this rank holds, whether all else is whole, and when `auto` shards."""
    import torch
    from base import load_base
    from sharding import bytes_of_base, is_wanted, shard

    cpu = torch.device("cpu")
    base = load_base(MODEL, cpu, torch.float32, False, shard=lambda model, decoder: shard(model, decoder, cpu, ranks.data))
    inside = [(p.to_local().numel(), p.numel()) for p in base.decoder.layers.parameters()]
    size = bytes_of_base(Path(MODEL), torch.float32)
    return {
        "share": sum(own for own, _ in inside) / sum(whole for _, whole in inside),
        "rest": type(base.head.weight.data).__name__,
        "bytes": size == sum(p.numel() * 4 for p in base.model.parameters()),
        "wanted": [is_wanted(*case) for case in (("auto", 49, 100), ("auto", 51, 100), ("none", 51, 100), ("full", 1, 100), ("auto", 51, float("inf")))],
    }


def ends():
    """How errors of a GPU end: as a failure of the call, or with the process's exit code."""
    import torch
    from failure import Ended, classify
    from sharding import Guard

    def end_of(act):
        try:
            return act().code
        except Ended as end:
            return end.code

    def full():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")

    return {
        "no handle": end_of(lambda: classify(RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"))),
        "launch failure": end_of(lambda: classify(RuntimeError("CUDA error: unspecified launch failure"))),
        "a bug": end_of(lambda: classify(RuntimeError("The size of tensor a (3) must match"))),
        "full while a layer is gathered": end_of(lambda: Guard(torch.nn.Identity()).run(full, "forward")),
    }


def rank(number):
    import torch
    from failure import Ended, Failure
    from parallel import divide
    from ranks import Ranks

    torch.set_num_threads(1)
    ranks = Ranks(number, 2)
    ranks.join()
    found = {}
    for name, codes in ACTS.items():
        try:
            found[name] = ranks.together(lambda: act(codes[number]))
        except Failure as failure:
            found[name] = [failure.code, failure.text]
    found["sharded"] = sharded(ranks)
    ranks.gather(torch.zeros(1))
    if number == 1:
        print(json.dumps(found), flush=True)
        os._exit(0)
    try:
        ranks.together(lambda: None)
    except Ended as end:
        found["rank 1 is gone"] = end.code
    found["ends"] = ends()
    found["divided"] = [divide(lengths, size) for lengths, size in (([5], 3), ([1, 2, 3, 4], 2), ([7, 7, 7], 2), ([4, 1, 9, 2, 3], 3))]
    print(json.dumps(found), flush=True)
    os._exit(0)


def main():
    if "RANK" in os.environ:
        return rank(int(os.environ["RANK"]))
    env = {**os.environ, "VF_TORCH_STORE": os.path.join(sys.argv[1], "store")}
    started = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env={**env, "RANK": str(number)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for number in (0, 1)
    ]
    print(json.dumps([json.loads(process.communicate()[0]) for process in started]))


if __name__ == "__main__":
    main()
