#!/usr/bin/env bash
# Tries the agents that `vf-init --agent` writes as a new user does: packs the package (built before), installs it into an empty folder outside the clone, and evaluates and trains each agent there.
# Usage: scripts/check-agent-templates.sh [KIND ...]; all of them by default. `command` needs python3. Prints a line for each agent.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/node_modules/.bin:$PATH"
kinds=${*:-ai-sdk openai-agents langgraph mastra command}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

npm pack --silent --pack-destination "$folder" >/dev/null
npm pack --silent --workspace vf-search-models --pack-destination "$folder" >/dev/null
mkdir "$folder/user"
cd "$folder/user"
npm init --yes >/dev/null
npm install --silent --no-package-lock "$folder"/vf-search-*.tgz
for kind in $kinds; do
  id="my-$kind"
  # The commands that it prints, up to its test.
  npx --no-install vf-init "$id" --agent "$kind" 2>/dev/null | grep '^npm install' | sh >/dev/null || true
  npx --no-install vf-eval "$id" --plain >"$id.eval" 2>&1 || { cat "$id.eval"; echo "$kind: vf-eval failed" >&2; exit 1; }
  grep -q ' 0 failed' "$id.eval" || { cat "$id.eval"; echo "$kind: rollouts failed" >&2; exit 1; }
  npx --no-install vf-train "$id" --preset laptop-copy --steps 2 -n 4 --set evaluation.examples=8 --plain -o trained >"$id.train" 2>&1 || { cat "$id.train"; echo "$kind: vf-train failed" >&2; exit 1; }
  grep -q 'finished, 2 of 2 steps' "$id.train" || { cat "$id.train"; echo "$kind: the training did not finish" >&2; exit 1; }
  played=$(grep -E '^rollouts +[0-9]' "$id.train")
  difference=$(grep -E '^\|Δlogp\| ' "$id.train")
  echo "$kind: evaluated; trained 2 steps; $(echo "$played" | tr -s " "); $(echo "$difference" | tr -s " ")"
done
