#!/usr/bin/env bash
# Installs LanceDB, the optional peer that stores vectors, next to this checkout and links it into node_modules, where `vf-index --dense` finds it. As a dev
# dependency it would bring 90 packages and 400 MB into every `npm ci`; this installs the library of this platform and its imports: 200 MB, a quarter of a minute.
# If it is installed already, only the link is made, which `npm ci` removes.
#
#   scripts/lancedb/install.sh        prints the folder of the installation on stdout, everything else on stderr
#
# VF_LANCEDB_DIR   target folder   (default ~/.cache/vf-search/lancedb)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly dir="${VF_LANCEDB_DIR:-$HOME/.cache/vf-search/lancedb}"
version="$(node -p 'require(process.argv[1]).peerDependencies["@lancedb/lancedb"]' "$here/../../package.json")"
readonly version
platform="$(node -p '
  const libc = process.platform !== "linux" ? "" : process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl";
  `${process.platform}-${process.arch}${process.platform === "win32" ? "-msvc" : libc}`')"
readonly platform
# Written last, to mark a complete installation.
readonly stamp="$dir/installed"
readonly wanted="lancedb $version $platform"

# An npm install in a checkout that is linked to the folder removes the packages and leaves the stamp.
is_installed() { [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" && -d "$dir/node_modules/@lancedb/lancedb" ]]; }

if ! is_installed; then
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if ! is_installed; then # another process may have installed it while this one waited
    echo "lancedb: installing into $dir (about 200 MB)" >&2
    rm -rf "$dir/node_modules" "$dir/package-lock.json" "$stamp"
    # Named itself, the library of the platform stays although the optional packages are left out: models and clients that are not used here.
    cat >"$dir/package.json" <<JSON
{ "private": true, "dependencies": { "@lancedb/lancedb": "$version", "@lancedb/lancedb-$platform": "$version", "apache-arrow": "18.1.0" } }
JSON
    (cd "$dir" && npm install --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
    echo "$wanted" >"$stamp"
    echo "lancedb: installed" >&2
  fi
fi
mkdir -p "$here/../../node_modules"
link="$here/../../node_modules/@lancedb"
# A folder is an installation by npm itself.
if [[ -L "$link" || ! -e "$link" ]]; then ln -sfn "$dir/node_modules/@lancedb" "$link"; fi
echo "$dir"
