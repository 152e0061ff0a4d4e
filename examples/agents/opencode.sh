#!/bin/sh
# OpenCode (npm: opencode-ai) as an agent: sh opencode.sh QUESTION
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1
export OPENCODE_CONFIG_CONTENT='{ "share": "disabled", "provider": { "policy": { "npm": "@ai-sdk/openai-compatible", "models": { "policy": {} },
  "options": { "baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}" } } } }'
exec opencode run --pure --title rollout --model policy/policy -- "$1"
