"""Serves `analysis.analyse`: a request is a token, the mode and JSON `{code, banned}`, a reply the token and JSON."""

import json

import channel
from analysis import analyse


def serve():
    while (fields := channel.receive()) is not None:
        token, _, request = fields
        request = json.loads(request)
        channel.send([token, json.dumps(analyse(request['code'], request['banned']))])


serve()
