#!/bin/sh
# Codex (npm: @openai/codex) as an agent: sh codex.sh QUESTION
exec codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --model "$VF_MODEL" -c model_provider=policy \
  -c "model_providers.policy={ name = 'policy', base_url = '$OPENAI_BASE_URL', env_key = 'OPENAI_API_KEY', wire_api = 'responses' }" -- "$1"
