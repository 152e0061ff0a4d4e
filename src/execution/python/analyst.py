"""Serves `analysis.analyse`: a request is a token, the mode and its arguments as JSON, a reply the token and JSON."""

import json

import channel
from analysis import analyse


def serve():
    while (fields := channel.receive()) is not None:
        token, _, request = fields
        channel.send([token, json.dumps(analyse(**json.loads(request)))])


serve()
