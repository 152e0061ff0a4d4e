"""python3 peak_memory.py COMMAND...  -> one JSON line: the most memory (MB, proportional set size) that COMMAND used with all its descendants. Linux only."""

import json
import os
import subprocess
import sys
import time

INTERVAL_S = 0.3


def family(pid):
    pids = [pid]
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                for child in file.read().split():
                    pids += family(child)
    except OSError:
        pass  # it has ended
    return pids


def proportional_kb(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def main(command):
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, processes = 0, 0
    while child.poll() is None:
        pids = family(child.pid)
        total = sum(map(proportional_kb, pids))
        if total > peak:
            peak, processes = total, len(pids)
        time.sleep(INTERVAL_S)
    print(json.dumps({"exit": child.returncode, "peak_mb": peak / 1024, "processes": processes}))


main(sys.argv[1:])
