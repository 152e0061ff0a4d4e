"""One check in a process of its own, a fork that ends at its budget: a broken GPU, a kill for memory or a hang ends that check and no other.

This process imports torch once and never touches a GPU, which a fork could not use after that. Where an import has touched it, the fork starts afresh.
"""

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Iterator

import torch
import transformers

from bench import Row, Setting
from checks import CHECKS, Check


# What a check that starts afresh is, as JSON: check, shape, device, tiny, folder, and the descriptor of its pipe.
AFRESH = "GPU_CHECK_AFRESH"


@dataclass
class Outcome:
    """`status`: passed, failed, or `timed out`; `facts` are what the machine check found."""

    name: str
    status: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    text: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def run_check(check: Check, shape: str | None, options: Namespace, plan: dict[str, Any], budget_s: float) -> Outcome:
    name = check.name if shape is None else f"{check.name}/{shape}"
    if budget_s <= 0:
        return Outcome(name, "timed out", text="no time was left for it")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        setting = Setting(options.device, options.tiny, Path(folder), plan)
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(read)
            with options.output.with_suffix(".log").open("a") as log:
                log.write(f"== {name}\n")
                log.flush()
                _be_the_check(check, shape, setting, write, log.fileno())
        os.close(write)
        outcome = _follow(name, read, process, began + budget_s)
    outcome.seconds = time.monotonic() - began
    return outcome


def _be_the_check(check: Check, shape: str | None, setting: Setting, write: int, log: int) -> None:
    """The child: its rows go to the pipe as lines of JSON. Does not return."""
    # A group of its own, so that what it starts ends with it.
    os.setsid()
    # The worker's log: also the tracebacks of failures that a check provokes.
    os.dup2(log, 2)
    if torch.cuda._is_in_bad_fork():
        os.set_inheritable(write, True)
        job = {"check": check.name, "shape": shape, "device": setting.device, "tiny": setting.tiny, "folder": str(setting.folder), "write": write}
        os.execve(sys.executable, [sys.executable, str(Path(__file__).parent)], {**os.environ, AFRESH: json.dumps(job)})
    _report(check, shape, setting, write)


def go_on_afresh(plan: dict[str, Any]) -> None:
    """The check that AFRESH names. Does not return."""
    job = json.loads(os.environ.pop(AFRESH))
    check = CHECKS.get(job["check"]) or Check(job["check"], 0.0)
    _report(check, job["shape"], Setting(job["device"], job["tiny"], Path(job["folder"]), plan), job["write"])


def _report(check: Check, shape: str | None, setting: Setting, write: int) -> None:
    code = 0
    with os.fdopen(write, "w") as pipe:

        def send(message: dict[str, Any]) -> None:
            pipe.write(f"{json.dumps(message)}\n")
            pipe.flush()

        try:
            if shape is None:
                send({"facts": _facts(setting)})
            else:
                for row in check.load()(setting, shape):
                    send({"row": asdict(row)})
            send({"end": True})
        except BaseException as error:
            traceback.print_exc()
            send({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
            code = 1
    os._exit(code)


def _follow(name: str, read: int, process: int, deadline: float) -> Outcome:
    outcome = Outcome(name, "failed")
    ended = False
    for message in _messages(read, deadline):
        if message is None:
            outcome.status, outcome.text = "timed out", "its time was over"
            break
        if "row" in message:
            outcome.rows.append(Row(**message["row"]))
        outcome.facts.update(message.get("facts", {}))
        outcome.text = message.get("error", outcome.text)
        ended = ended or "end" in message
    os.close(read)
    _kill(process)
    _, status = os.waitpid(process, 0)
    if outcome.status == "timed out":
        return outcome
    if not ended and not outcome.text:
        outcome.text = f"its process ended with {os.waitstatus_to_exitcode(status)}"
    if ended and all(row.status != "failed" for row in outcome.rows):
        outcome.status = "passed"
    return outcome


def _messages(read: int, deadline: float) -> Iterator[dict[str, Any] | None]:
    """The lines of the pipe until it ends; None once the deadline has passed."""
    rest = b""
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            yield None
            return
        part = os.read(read, 1 << 16)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _kill(process: int) -> None:
    """The child and what it started."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _facts(setting: Setting) -> dict[str, Any]:
    from base import choose_device

    device = choose_device(setting.device)
    facts: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__}
    if device.type != "cuda":
        return {"device": "CPU", "threads": torch.get_num_threads(), **facts}
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    return {
        "device": properties.name,
        "devices": torch.cuda.device_count(),
        "memory_bytes": total,
        "free_bytes": free,
        "capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        **facts,
    }
