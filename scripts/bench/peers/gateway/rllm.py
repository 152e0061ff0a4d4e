"""rllm-model-gateway 0.1.0 with its traces in memory: python rllm.py UPSTREAM PORT WITH_IDS, true if it asks the server for token ids and log-probs."""

import sys

import uvicorn
from rllm_model_gateway import GatewayConfig, create_app

upstream, port, with_ids = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "true"
config = GatewayConfig(
    host="127.0.0.1",
    port=port,
    store_worker="memory",
    add_logprobs=with_ids,
    add_return_token_ids=with_ids,
    strip_vllm_fields=with_ids,
    log_level="WARNING",
    workers=[{"url": upstream, "worker_id": "0"}],
)
uvicorn.run(create_app(config), host=config.host, port=port, log_level="warning", access_log=False)
