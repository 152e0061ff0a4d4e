/** The table `[publish]` of a training configuration: the way new weights reach the policy servers. */
import { count, flag, numberOrNull, positive, table, textOrNull } from './config-table.ts';

export const publish = table('Publishing new weights to the server.', {
  server_adapter_dir: textOrNull(
    "The server's path of the run's adapters/ folder, if it differs (containers). {run} stands for the name of the run's folder: /mnt/outputs/train/{run}/adapters.",
  ),
  probe_tolerance: numberOrNull(
    "Largest accepted mean |Δ log-prob| between server and trainer, in nats. Default: 0.001 in float32, 0.05 otherwise. A server that returns the base's log-probs is refused if the adapter changes log-probs by at least 3 times the rounding noise (gpu-training.md, section 10).",
    null,
  ),
  load_timeout_s: positive('Deadline for loading an adapter on one replica.', 300),
  in_flight: flag(
    'Give new weights to generations that are under way, instead of letting each rollout end with the version with which it began. The server pauses while the weights change; every token is recorded with the version that sampled it. Needs one vLLM of version 0.32 or later that serves this run alone, started with --enable-scale-out and VLLM_SERVER_DEV_MODE=1, and max_staleness of 1 or more.',
    false,
  ),
  quorum: count(
    'Number of replicas that must have loaded a version before it is sampled from. The others get no requests until they have it. With fewer living replicas the run waits.',
    1,
  ),
});
