#!/usr/bin/env bash
# Installs five coding agents from npm in pinned versions, which docs/agents.md and test/harnesses play against the policy: Claude Code, Codex, OpenCode, Qwen Code and Pi.
# 1.3 GB and a minute or two. None is part of vf-search: each has terms of its own, those of Claude Code are in its LICENSE.md. No install script of a package runs.
#
#   scripts/harnesses/install.sh      prints the folder on stdout, everything else on stderr; the programs are in its folder bin
#
# VF_HARNESSES_DIR   target folder   (default ~/.cache/vf-search/harnesses)
set -euo pipefail

readonly CLAUDE_CODE=2.1.332 CODEX=0.171.0 OPENCODE=1.18.33 QWEN_CODE=0.24.4 PI=0.73.1
readonly dir="${VF_HARNESSES_DIR:-$HOME/.cache/vf-search/harnesses}"
platform="$(node -p '`${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`')"
readonly platform
musl="$(node -p 'process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime ? "-musl" : ""')"
readonly musl
case "$platform" in linux-x64 | linux-arm64 | darwin-x64 | darwin-arm64) ;; *) echo "harnesses: there is no installation for $platform; use Linux or macOS" >&2; exit 1 ;; esac
# Written last, to mark a complete installation.
readonly stamp="$dir/installed"
readonly wanted="claude-code $CLAUDE_CODE, codex $CODEX, opencode $OPENCODE, qwen-code $QWEN_CODE, pi $PI, $platform$musl"

is_installed() { [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" && -x "$dir/bin/pi" ]]; }

# The programs of Claude Code and OpenCode are in a package per platform, which an install script would copy.
link() {
  chmod +x "$dir/node_modules/$2"
  ln -sfn "../node_modules/$2" "$dir/bin/$1"
}

if ! is_installed; then
  mkdir -p "$dir/bin"
  exec 9>"$dir/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if ! is_installed; then # another process may have installed it while this one waited
    echo "harnesses: installing into $dir (1.3 GB)" >&2
    rm -rf "$dir/node_modules" "$dir/package-lock.json" "$stamp"
    # Named itself, the package of the platform stays although the optional packages are left out: sound, pictures and the clipboard.
    cat >"$dir/package.json" <<JSON
{ "private": true, "dependencies": {
  "@anthropic-ai/claude-code-$platform$musl": "$CLAUDE_CODE",
  "@openai/codex": "$CODEX", "@openai/codex-$platform": "npm:@openai/codex@$CODEX-$platform",
  "opencode-$platform$musl": "$OPENCODE",
  "@qwen-code/qwen-code": "$QWEN_CODE",
  "@mariozechner/pi-coding-agent": "$PI" } }
JSON
    (cd "$dir" && npm install --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
    link claude "@anthropic-ai/claude-code-$platform$musl/claude"
    link codex "@openai/codex/bin/codex.js"
    link opencode "opencode-$platform$musl/bin/opencode"
    link qwen "@qwen-code/qwen-code/cli-entry.js"
    chmod +x "$dir"/node_modules/@qwen-code/qwen-code/vendor/ripgrep/*/rg
    link pi "@mariozechner/pi-coding-agent/dist/cli.js"
    echo "$wanted" >"$stamp"
    echo "harnesses: installed" >&2
  fi
fi
echo "$dir"
