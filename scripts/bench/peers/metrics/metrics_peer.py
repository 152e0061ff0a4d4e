"""python3 metrics_peer.py METRICS_JSON MATCHER_JSON [EVALUATION_PY]

For every line on stdin one JSON line with the CPU microseconds an item: `ratio`, CPython's SequenceMatcher.ratio over the pairs of MATCHER_JSON, and with
EVALUATION_PY (servers/evaluation/src/evaluation.py of OpenBMB/UltraRAG) `metrics`, its compute_metrics of all eight metrics, one question at a time.
"""

import difflib
import importlib.util
import json
import logging
import sys
import time
import types


def inputs(path):
    with open(path, encoding="utf-8") as file:
        return [case["input"] for case in json.load(file)["cases"]]


def microseconds(items, call):
    start = time.process_time()
    for item in items:
        call(item)
    return 1e6 * (time.process_time() - start) / len(items)


class Server:
    """Stands for UltraRAG's MCP server, which only registers the functions."""

    def __init__(self, name):
        self.logger = logging.getLogger(name)

    def tool(self, function=None, **_):
        return function if callable(function) else lambda wrapped: wrapped


def evaluation(path):
    server = types.ModuleType("ultrarag.server")
    server.UltraRAG_MCP_Server = Server
    sys.modules["ultrarag"] = types.ModuleType("ultrarag")
    sys.modules["ultrarag.server"] = server
    spec = importlib.util.spec_from_file_location("evaluation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(metrics_json, matcher_json, evaluation_py=None):
    logging.disable(logging.WARNING)
    pairs = inputs(matcher_json)
    questions = inputs(metrics_json)
    upstream = evaluation(evaluation_py) if evaluation_py else None
    for _ in sys.stdin:
        figures = {"ratio": microseconds(pairs, lambda pair: difflib.SequenceMatcher(None, pair["a"], pair["b"]).ratio())}
        if upstream:
            figures["metrics"] = microseconds(questions, lambda item: upstream.compute_metrics([item["gt"]], [item["pred"]], None))
        print(json.dumps(figures), flush=True)


main(*sys.argv[1:])
