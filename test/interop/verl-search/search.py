"""The search client of verl, from its package: only the file itself is loaded, because verl imports torch and Ray.

argv: URL of /retrieve, queries as JSON.
"""
import importlib.metadata
import importlib.util
import json
import sys

distribution = importlib.metadata.distribution("verl")
path = distribution.locate_file("verl/tools/utils/search_r1_like_utils.py")
spec = importlib.util.spec_from_file_location("search_r1_like_utils", path)
client = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)

text, metadata = client.perform_single_search_batch(sys.argv[1], json.loads(sys.argv[2]), topk=3, timeout=30)
print(json.dumps({"version": distribution.version, "text": json.loads(text)["result"], "metadata": metadata}))
