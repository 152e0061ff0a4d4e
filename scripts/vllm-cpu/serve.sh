#!/usr/bin/env bash
# Serves one model directory with a real vLLM on the CPU, on loopback, until SIGINT or SIGTERM.
#
#   scripts/vllm-cpu/serve.sh test/models/nano-base [port] [further vLLM flags ...]
#
# Port 0, the default, picks a free port. Once the server is healthy, prints its base URL (http://127.0.0.1:PORT/v1) as one line on stdout.
# The server's own output goes to stderr. Installs vLLM first if it is missing (install.sh).
#
# VF_VLLM_MODEL_NAME      served model name              (default: the directory's name)
# VF_VLLM_READY_SECONDS   limit for the start            (default 240)
# VF_VLLM_MAX_MODEL_LEN   context length in tokens       (default 2048)
# VF_VLLM_LORA            1 accepts adapters at run time (default off)
# VF_VLLM_KV_CACHE_MB     memory of the KV cache in MiB  (default 256, which holds 131,072 tokens of nano-base)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly here
readonly model="${1:?usage: serve.sh MODEL_DIR [port] [further vLLM flags ...]}"
port="${2:-0}"
shift $(($# < 2 ? $# : 2))
readonly name="${VF_VLLM_MODEL_NAME:-$(basename "$(cd "$model" && pwd)")}"
readonly ready_seconds="${VF_VLLM_READY_SECONDS:-240}"

python="$("$here/install.sh")"
if [[ "$port" == 0 ]]; then
  port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
fi

# With float32 and eager mode, log-probs agree to about 1e-6 and nothing is compiled. generation-config vllm ignores the model's own sampling
# defaults. The KV cache is small, because the tests run several servers and a trainer at once: with vLLM's least setting, 1 GiB each, they filled 24 GB.
# One OpenMP thread, because a tiny model gains nothing from more; nobind, because otherwise every server binds it to the same core.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export VLLM_CPU_OMP_THREADS_BIND="${VLLM_CPU_OMP_THREADS_BIND:-nobind}"
export VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
lora=()
# With LoRA on, a request with prompt_logprobs crashes the CPU build if another request runs at the same time.
if [[ "${VF_VLLM_LORA:-}" == 1 ]]; then lora=(--enable-lora --max-lora-rank 16 --max-loras 2 --max-cpu-loras 4); fi
# A separate process group, so that the engine's processes end with the server.
setsid "$python" -m vllm.entrypoints.openai.api_server \
  --host 127.0.0.1 --port "$port" --model "$model" --served-model-name "$name" \
  --kv-cache-memory-bytes "$((${VF_VLLM_KV_CACHE_MB:-256} * 1024 * 1024))" \
  --dtype float32 --enforce-eager --max-model-len "${VF_VLLM_MAX_MODEL_LEN:-2048}" --generation-config vllm --enable-prompt-tokens-details \
  "${lora[@]}" "$@" 1>&2 &
readonly server=$!

stop() {
  trap - EXIT INT TERM
  kill -TERM -- "-$server" 2>/dev/null || true
  for _ in {1..50}; do
    kill -0 -- "-$server" 2>/dev/null || return 0
    sleep 0.2
  done
  kill -KILL -- "-$server" 2>/dev/null || true
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

is_healthy() {
  local status
  # In a subshell, because a refused connection would end the script. Needs no curl.
  status="$( (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && read -r -t 5 line <&3 && echo "$line") 2>/dev/null)" || return 1
  [[ "$status" == *" 200 "* ]]
}
deadline=$((SECONDS + ready_seconds))
until is_healthy; do
  if ! kill -0 "$server" 2>/dev/null; then
    echo "vllm-cpu: the server ended before it was ready; see its output above" >&2
    exit 1
  fi
  if ((SECONDS >= deadline)); then
    echo "vllm-cpu: the server was not ready within $ready_seconds s; raise VF_VLLM_READY_SECONDS on a slow machine" >&2
    exit 1
  fi
  sleep 0.5
done
echo "http://127.0.0.1:$port/v1"
wait "$server"
