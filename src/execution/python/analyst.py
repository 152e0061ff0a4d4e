"""Serves `analysis.analyse`: a request is a token, the mode and its arguments as JSON, a reply the token and JSON."""

import gc
import json

import channel
from analysis import analyse


def serve():
    # Objects loaded by now stay; the garbage of requests is collected after many of them.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    while (fields := channel.receive()) is not None:
        token, _, request = fields
        channel.send([token, json.dumps(analyse(**json.loads(request)))])


serve()
