"""Stands for a Python that runs a program: a fork of forking-python.py runs it with the streams, variables and folder of this process. Ends as it ends.

Arguments: the socket, the script and its arguments. Needs no installed package.
"""

import json
import os
import signal
import socket
import sys
import time

PATIENCE_S = 60


def connected(path):
    asker = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            asker.connect(path)
            return asker
        except OSError:
            # It has not opened its socket yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


path, *arguments = sys.argv[1:]
asker = connected(path)
socket.send_fds(asker, [b"+"], [0, 1, 2])
request = {"arguments": arguments, "variables": dict(os.environ), "folder": os.getcwd()}
asker.sendall(json.dumps(request).encode() + b"\n")
for stream in (0, 1):
    os.close(stream)
with asker.makefile("r") as lines:
    program = int(lines.readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(program, number))
    status = int(lines.readline())
code = os.waitstatus_to_exitcode(status)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
