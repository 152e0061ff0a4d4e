#!/bin/sh
# Qwen Code (npm: @qwen-code/qwen-code) as an agent: sh qwen-code.sh QUESTION
mkdir -p "$HOME/.qwen"
echo '{ "privacy": { "usageStatisticsEnabled": false } }' >"$HOME/.qwen/settings.json"
exec qwen --auth-type openai --model "$VF_MODEL" --yolo --prompt="$1"
