#!/usr/bin/env bash
# Installs the Python packages that `npm run test:interop` proves this package against, each peer into a virtual environment of its own, because they
# exclude each other. A peer is a folder next to this script with a requirements.txt; a line "# pip: --no-deps" in it means that the file is complete.
# If a peer is already installed, the script returns at once.
#
#   scripts/interop/install.sh PEER...     prints the path of each peer's Python on stdout, one a line, everything else on stderr
#   scripts/interop/install.sh --quick     the peers of `npm run test:interop -- --quick`
#   scripts/interop/install.sh --all       every peer, one after the other
#
# VF_INTEROP_DIR      target folder     (default ~/.cache/vf-search/interop)
# VF_INTEROP_PYTHON   the Python to use (default: the first suitable of python3, python3.12, 3.11, 3.13)
set -euo pipefail

readonly QUICK=(trl openenv openenv-core verifiers inspect)
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly root="${VF_INTEROP_DIR:-$HOME/.cache/vf-search/interop}"

say() { echo "interop: $*" >&2; }

all_peers() {
  local file
  for file in "$here"/*/requirements.txt; do basename "$(dirname "$file")"; done
}

base_python() {
  local candidate
  for candidate in ${VF_INTEROP_PYTHON:-python3 python3.12 python3.11 python3.13}; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  say "found no Python 3.11 to 3.13 with the venv module; install one (Debian: apt-get install python3-venv) or set VF_INTEROP_PYTHON"
  return 1
}

pip() { "$python" -m pip --disable-pip-version-check --quiet --quiet "$@"; }

# True if pip would install torch for CUDA, which wastes gigabytes here. A dry run, installs nothing.
plans_cuda() {
  pip install --dry-run --report - "$1" 2>/dev/null |
    "$python" -c 'import json, re, sys
names = [item["metadata"]["name"] for item in json.load(sys.stdin)["install"]]
sys.exit(not any(re.match(r"nvidia|cuda", name) for name in names))'
}

# The build for the CPU first; the other requirements then leave it as it is.
install_torch() {
  if plans_cuda "$1"; then
    pip install --index-url "$TORCH_CPU_INDEX" "$1+cpu" >&2
  else
    pip install "$1" >&2
  fi
  "$python" -W ignore -c 'import sys, torch
if torch.version.cuda is not None:
    sys.exit(f"interop: expected the CPU build of torch, got {torch.__version__} (CUDA {torch.version.cuda})")' >&2
}

# The mark is a copy of the requirements, so that changed ones are installed again.
is_installed() { [[ -x "$python" ]] && cmp --silent "$stamp" "$requirements"; }

install_peer() {
  local peer="$1" torch base seconds=$SECONDS
  requirements="$here/$peer/requirements.txt"
  if [[ "$peer" == */* || ! -f "$requirements" ]]; then
    say "unknown peer $peer; the peers are: $(all_peers | tr '\n' ' ')"
    return 2
  fi
  dir="$root/$peer"
  python="$dir/venv/bin/python"
  # Written last, to mark a complete installation.
  stamp="$dir/installed"
  if ! is_installed; then
    mkdir -p "$dir"
    exec 9>"$dir/lock"
    if command -v flock >/dev/null; then flock 9; fi
    if ! is_installed; then # another process may have installed it while this one waited
      say "installing $peer into $dir"
      base="$(base_python)"
      rm -rf "$dir/venv" "$stamp"
      "$base" -m venv "$dir/venv"
      torch="$(grep -E '^torch==' "$requirements" || true)"
      if [[ -n "$torch" ]]; then install_torch "$torch"; fi
      if grep -qx '# pip: --no-deps' "$requirements"; then
        pip install --no-deps --requirement "$requirements" >&2
      else
        pip install --requirement "$requirements" >&2
      fi
      cp "$requirements" "$stamp"
      say "installed $peer: $(du -sm "$dir/venv" | cut -f1) MB, $((SECONDS - seconds)) s"
    fi
    exec 9>&-
  fi
  echo "$python"
}

case "${1:-}" in
  '')
    say "usage: install.sh PEER... | --quick | --all; the peers are: $(all_peers | tr '\n' ' ')"
    exit 2
    ;;
  --quick) set -- "${QUICK[@]}" ;;
  --all)
    set -- "${QUICK[@]}"
    for peer in $(all_peers); do
      if [[ " ${QUICK[*]} " != *" $peer "* ]]; then set -- "$@" "$peer"; fi
    done
    ;;
esac
for peer in "$@"; do install_peer "$peer"; done
