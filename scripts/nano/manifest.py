"""Writes models/MANIFEST.json with the size and SHA-256 of every file of the bundled models. Standard library only.

    python3 scripts/nano/manifest.py
"""

import hashlib
import json
import pathlib

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
PROTOCOLS = {"nano-base": "Search-R1", "nano-o1": "Search-o1"}
DESCRIPTION = "Qwen3-format base of 1M parameters that knows the {} protocol but rarely searches: for learning runs on a CPU"


def describe(path):
    content = path.read_bytes()
    return {"path": path.relative_to(MODELS).as_posix(), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def entry(name, protocol):
    files = [describe(path) for path in sorted((MODELS / name).iterdir())]
    return {"description": DESCRIPTION.format(protocol), "license": "Apache-2.0", "made_by": "scripts/nano/README.md", "files": files}


def main():
    manifest = {"schema_version": 1, "models": {name: entry(name, protocol) for name, protocol in PROTOCOLS.items()}}
    (MODELS / "MANIFEST.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
