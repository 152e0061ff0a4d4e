"""Checks the torch worker on the GPU at hand in at most eight minutes, with its own modules and models of random weights; needs no network and no Node.

    python scripts/gpu-check                        # Python 3.10 or newer with torch, transformers, safetensors and numpy; PEFT is used if it is there
    python scripts/gpu-check --only memory --only numbers/qwen3-4b
    python scripts/gpu-check --device cpu --tiny    # the same checks on a CPU, with tiny shapes

Prints each check as it ends, and all results as a Markdown table at the end; --output gets the same as JSON, and a .log next to it what the worker printed. A check that fails, dies or runs out of time is reported, and the others continue.
Exit codes: 0 if nothing failed; 1 if a check failed or did not end; 2 if nothing could be checked.
"""

import argparse
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

missing = [name for name in ("torch", "transformers", "safetensors", "numpy") if find_spec(name) is None]
if missing:
    print(f"gpu-check: {sys.executable} has no {', '.join(missing)}; run it with a Python that has them", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench  # noqa: E402

bench.quiet()
from checks import CHECKS, Check, chosen  # noqa: E402
from running import AFRESH, Outcome, go_on_afresh, run_check  # noqa: E402
from table import lines_of, table, write_json  # noqa: E402

# Seconds for everything on a GPU. A check gets its budget or what is left, whichever is less.
TOTAL_S = 470.0
# For a check on a CPU, where only a hang takes so long.
CPU_S = 900.0


def main() -> int:
    if AFRESH in os.environ:
        go_on_afresh(bench.read_plan())
    options = parse()
    began = time.monotonic()
    plan = bench.read_plan()
    jobs = chosen(options.only, options.tiny, plan)
    if not jobs:
        print(f"gpu-check: no check is named {', '.join(options.only)}; choose from {', '.join(CHECKS)}, also as NAME/SHAPE", file=sys.stderr)
        return 2
    options.output.with_suffix(".log").write_text("")
    machine = run_check(Check("machine", 60.0), None, options, plan, 60.0)
    if machine.status != "passed":
        print(f"gpu-check: {options.device} cannot be used: {machine.text}", file=sys.stderr)
        return 2
    print(", ".join(f"{key} {value}" for key, value in machine.facts.items()), flush=True)
    outcomes: list[Outcome] = []
    for check, shape in jobs:
        budget = CPU_S if options.tiny else min(check.budget_s, TOTAL_S - (time.monotonic() - began))
        outcome = run_check(check, shape, options, plan, budget)
        print("\n".join(lines_of(outcome)), flush=True)
        outcomes.append(outcome)
    print(f"\n{table(outcomes)}")
    write_json(options.output, machine.facts, outcomes, time.monotonic() - began)
    bad = [outcome for outcome in outcomes if outcome.status != "passed"]
    end = "No check failed" if not bad else f"{len(bad)} of {len(outcomes)} checks failed: {', '.join(outcome.name for outcome in bad)}"
    print(f"\n{end}, in {time.monotonic() - began:.0f} s. Results: {options.output}, {options.output.with_suffix('.log')}")
    return 1 if bad else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (default cuda)")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, for a CPU")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=f"run this check alone; may be repeated. One of {', '.join(CHECKS)}, or NAME/SHAPE")
    parser.add_argument("--output", type=Path, default=Path("gpu-check.json"), help="file for the results as JSON (default gpu-check.json)")
    options = parser.parse_args()
    if (options.device == "cpu") != options.tiny:
        parser.error("--tiny is for --device cpu, and a CPU needs it: the real shapes would take hours there")
    return options


if __name__ == "__main__":
    sys.exit(main())
