"""Writes models/MANIFEST.json with the size and SHA-256 of every file of the bundled models, those of packages/vf-search-models included. Standard library only.

    python3 -m recipes.trunk.manifest
"""

import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
PACKAGE = "vf-search-models"
DESCRIPTION = "Qwen3-format base of 1M parameters that knows the {} protocol but rarely searches: for learning runs on a CPU"
MODELS_BY_NAME = {
    "nano-base": (DESCRIPTION.format("Search-R1"), "recipes/base/README.md"),
    "nano-coder": (
        "Qwen3-format base of 0.8M parameters that proposes, solves and grades small Python programs, mostly badly: for self-play on a CPU",
        "recipes/coder/README.md",
    ),
    "nano-copy": (
        "Qwen3-format base of 1M parameters that copies what it reads, in any words, but rarely searches: for environments of one's own, on a CPU",
        "recipes/copy/README.md",
    ),
    "nano-o1": (DESCRIPTION.format("Search-o1"), "recipes/base/README.md"),
    "nano-pages": (
        "Qwen3-format base of 1M parameters that reads pages as words with boxes and rarely cuts out what answers: for learning runs on a CPU",
        "recipes/pages/README.md",
    ),
}


def describe(path, models):
    content = path.read_bytes()
    return {"path": path.relative_to(models).as_posix(), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def entry(name, description, made_by):
    own = (MODELS / name).is_dir()
    models = MODELS if own else ROOT / "packages" / PACKAGE / "models"
    files = [describe(path, models) for path in sorted((models / name).iterdir())]
    return {"description": description, **({} if own else {"package": PACKAGE}), "license": "Apache-2.0", "made_by": made_by, "files": files}


def main():
    manifest = {"schema_version": 1, "models": {name: entry(name, *about) for name, about in MODELS_BY_NAME.items()}}
    (MODELS / "MANIFEST.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
