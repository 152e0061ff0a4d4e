"""Hugging Face `datasets` on files of several runs, loaded as one data set.

argv: files of JSON lines, all of them results of vf-eval or all of them exports of vf-export. Prints the number of rows and the type of every column,
nested ones under `outer.inner` and items of lists under `outer[]`; or the error, with exit code 1.
"""
import importlib.metadata
import json
import sys
import tempfile

import datasets

datasets.disable_progress_bars()


def types(feature, path=""):
    """{path: type} of the columns below a feature."""
    if isinstance(feature, dict):
        below = [types(inner, f"{path}.{name}" if path else name) for name, inner in feature.items()]
        return {name: kind for part in below for name, kind in part.items()}
    if isinstance(feature, datasets.List):
        return types(feature.feature, f"{path}[]")
    return {path: feature.dtype if isinstance(feature, datasets.Value) else type(feature).__name__}


answer = {"version": importlib.metadata.version("datasets"), "files": len(sys.argv) - 1, "rows": None, "types": None, "error": None}
with tempfile.TemporaryDirectory() as cache:
    try:
        rows = datasets.load_dataset("json", data_files=sys.argv[1:], split="train", cache_dir=cache)
        answer |= {"rows": len(rows), "types": types(dict(rows.features))}
    except datasets.exceptions.DatasetsError as error:
        answer["error"] = f"{type(error).__name__}: {error.__cause__ or error}"[:500]
print(json.dumps(answer))
sys.exit(answer["error"] is not None)
