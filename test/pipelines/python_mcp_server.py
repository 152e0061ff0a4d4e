"""An MCP server of Python's standard library alone, over stdio; its first argument says how it misbehaves: well, noise, dies, hangs, late, torn."""

import json
import os
import sys

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
TEXTS = {"type": "array", "items": {"type": "string"}}
SHOUT = {
    "name": "shout",
    "description": "Raises the voice.",
    "inputSchema": {"type": "object", "properties": {"q_ls": TEXTS}, "required": ["q_ls"]},
    "outputSchema": {"type": "object", "properties": {"loud_ls": TEXTS}, "required": ["loud_ls"]},
}
calls = []


def write(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(request, result):
    if MODE == "noise":
        write("loading the index ... done")
        write('{"level": "info", "message": "no JSON-RPC"}')
    write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))


def shout(request):
    calls.append(request)
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
    if MODE == "late" and len(calls) == 1:
        return
    if MODE == "late" and len(calls) == 3:
        answer(calls[0], {"content": [], "structuredContent": {"loud_ls": ["LATE!"]}})
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
