#!/usr/bin/env bash
# Installs TensorBoard and the client of Weights & Biases, which read the curves that vf-train writes, into a virtual environment of their own.
# Only tests need them; takes about 300 MB and half a minute. If they are installed already, returns at once.
#
#   scripts/curve-readers/install.sh       prints the path of the environment's Python on stdout, everything else on stderr
#
# VF_CURVE_READERS_DIR   target folder   (default ~/.cache/vf-search/curve-readers)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly dir="${VF_CURVE_READERS_DIR:-$HOME/.cache/vf-search/curve-readers}"
readonly python="$dir/venv/bin/python"
# Written last, to mark a complete installation.
readonly stamp="$dir/installed"

is_installed() { [[ -x "$python" ]] && cmp --silent "$stamp" "$here/requirements.txt"; }

if ! is_installed; then
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if ! is_installed; then # another process may have installed it while this one waited
    echo "curve-readers: installing into $dir (about 300 MB)" >&2
    rm -rf "$dir/venv" "$stamp"
    python3 -m venv "$dir/venv"
    "$python" -m pip --disable-pip-version-check --quiet install --requirement "$here/requirements.txt" >&2
    cp "$here/requirements.txt" "$stamp"
    echo "curve-readers: installed" >&2
  fi
fi
echo "$python"
