#!/bin/sh
# Pi (npm: @mariozechner/pi-coding-agent) as an agent: sh pi.sh QUESTION
mkdir -p "$HOME/.pi/agent"
cat >"$HOME/.pi/agent/models.json" <<JSON
{ "providers": { "policy": { "baseUrl": "$OPENAI_BASE_URL", "api": "openai-completions", "apiKey": "OPENAI_API_KEY", "models": [{ "id": "policy" }] } } }
JSON
# As an argument, a question that begins with - or @ would be an option or a file.
printf '%s\n' "$1" | exec pi --offline --print --provider policy --model policy
