#!/bin/sh
# Claude Code (npm: @anthropic-ai/claude-code) as an agent: sh claude-code.sh QUESTION
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_ATTRIBUTION_HEADER=0
exec claude --print --model "$VF_MODEL" --allowedTools Bash Read Edit Write Glob Grep -- "$1"
