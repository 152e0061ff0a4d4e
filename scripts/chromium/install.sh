#!/usr/bin/env bash
# Installs Debian's Chromium for the proofs and tests that need a browser, unless one is here, and prints its path. VF_CHROMIUM names another.
set -euo pipefail
found() { command -v "${VF_CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome; }
if ! found >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo 'No Chromium is here. Install one (Debian: apt-get install chromium), or name its program in VF_CHROMIUM.' >&2
    exit 1
  fi
  { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >&2
fi
found
