"""A Python that has imported torch and transformers: every program that it is asked to run gets a fork of it, and so starts within a tenth of a second.

Argument: the path of its socket. Ends with its stdin, which the process that started it holds, and removes the socket's folder. forked-program.py asks.
"""

import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress

LIBRARIES = (
    "safetensors.torch",
    "torch.distributed.fsdp",
    "torch.func",
    "torch.utils.checkpoint",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.image_processing_auto",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
)


def serve(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        for name in LIBRARIES:
            # A program that needs it says so.
            with suppress(ImportError):
                __import__(name)
        # The programs lie among sources.
        sys.dont_write_bytecode = True
        while listener in select.select([listener, 0], [], [])[0]:
            asker, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                try:
                    keep(asker)
                finally:
                    os._exit(0)
            asker.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0] != 0:
                    pass
    shutil.rmtree(os.path.dirname(path))


def keep(asker):
    """Runs one program in a child, and ends it when its asker is gone."""
    _, streams, _, _ = socket.recv_fds(asker, 1, 3)
    with asker.makefile("r") as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        asker.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        run(request)
    for number, stream in enumerate(streams):
        os.close(number)
        os.close(stream)
    asker.sendall(f"{child}\n".encode())
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, asker], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    asker.sendall(f"{os.waitpid(child, 0)[1]}\n".encode())


def run(request):
    status = 0
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["variables"])
        tempfile.tempdir = None
        script, *rest = request["arguments"]
        sys.argv = [script, *rest]
        sys.path[0] = os.path.dirname(os.path.abspath(script))
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)


serve(sys.argv[1])
