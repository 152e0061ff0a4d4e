"""python3 cpu.py RUNS COMMAND...  -> one JSON line: median wall and CPU seconds of COMMAND including all its descendants.

This process is their subreaper, so it waits for and counts children that outlive their parent. Linux only.
"""

import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def cpu():
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def main(runs, command):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rows, status = [], 0
    for _ in range(runs):
        wall, spent = time.perf_counter(), cpu()
        with open(os.devnull, "wb") as sink:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
            _, code = os.waitpid(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(code)
        status = status or child.returncode
        wall = time.perf_counter() - wall
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
        rows.append((wall, cpu() - spent))
    wall, spent = (statistics.median(column) for column in zip(*rows))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(json.dumps({"runs": runs, "exit": status, "wall_s": wall, "cpu_s": spent, "max_rss_mb": peak}))


main(int(sys.argv[1]), sys.argv[2:])
