"""An MCP server of Python's standard library alone, over stdio; its first argument says how it misbehaves: well, noise, dies, hangs, late, torn."""

import json
import os
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
LATE_S = 1.0
TEXTS = {"type": "array", "items": {"type": "string"}}
SHOUT = {
    "name": "shout",
    "description": "Raises the voice.",
    "inputSchema": {"type": "object", "properties": {"q_ls": TEXTS}, "required": ["q_ls"]},
    "outputSchema": {"type": "object", "properties": {"loud_ls": TEXTS}, "required": ["loud_ls"]},
}
lock = threading.Lock()
calls = 0


def write(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def answer(request, result):
    if MODE == "noise":
        write("loading the index ... done")
        write('{"level": "info", "message": "no JSON-RPC"}')
    write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))


def shout(request):
    global calls
    calls += 1
    questions = request["params"]["arguments"]["q_ls"]
    if MODE == "dies":
        sys.stderr.write("Traceback (most recent call last):\nMemoryError: the index is too large\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "hangs":
        return
    if MODE == "torn":
        write('{"jsonrpc": "2.0", "id": ' + str(request["id"]) + ', "result": {"content": [')
        os._exit(0)
    reply = {"loud_ls": [question.upper() + "!" for question in questions]}
    result = {"content": [{"type": "text", "text": json.dumps(reply)}], "structuredContent": reply}
    if MODE == "late" and calls == 1:
        threading.Thread(target=lambda: (time.sleep(LATE_S), answer(request, result)), daemon=True).start()
        return
    answer(request, result)


def main():
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            info = {"name": "python", "version": "1"}
            version = request["params"]["protocolVersion"]
            answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            answer(request, {"tools": [SHOUT]})
        elif method == "tools/call":
            shout(request)


main()
