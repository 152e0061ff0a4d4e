/** The table `[backend]` of a training run's configuration. */
import { choice, count, countOrNull, numberOrNull, positive, table, text, textOrNull, textWith } from './config-table.ts';
import { anyOf, nullable } from './json-schema.ts';

export const backend = table('The gradient backend.', {
  kind: choice(
    ['torch', 'embedded', 'tinker'],
    'torch: a PyTorch worker in a child process. embedded: the embedded engine in this process, in float32; only dense Qwen3, needs no Python. tinker: a service that speaks the Tinker API, which trains and samples (docs/tinker.md).',
  ),
  base_url: textOrNull(
    "tinker: the service's URL, without /api/v1. Default: https://tinker.thinkingmachines.dev/services/tinker-prod, the hosted Tinker.",
  ),
  api_key_var: textWith('tinker: environment variable that holds the API key. A service at another base_url may need none.', 'TINKER_API_KEY'),
  model: textOrNull(
    "tinker: the service's name of the base. model.path is the folder with its tokenizer on this machine. Default: model.path as it is given.",
  ),
  wire: choice(
    ['auto', 'protobuf', 'json'],
    'tinker: how passes are sent. auto: in protobuf, as official SDKs do since 0.25, and in JSON if the service refuses that, as SkyRL 0.3 does.',
  ),
  reduction: choice(
    ['auto', 'sum', 'mean'],
    'tinker: how the service combines the losses of sequences. auto: found out with two steps at learning rate 0 on a model of rank 1, which needs a service that returns the norm of the gradient.',
  ),
  pad_to: count(
    'tinker: the number of sequences of a request is filled up to a multiple of this with ones that have no gradient, for servers that compile for every number.',
    1,
  ),
  ttl_hours: numberOrNull('tinker: time after which the service may delete what the run saves there. Default: never.', null),
  python: { ...text('torch: a Python with torch, transformers and safetensors.'), default: 'python3' },
  device: {
    type: 'string',
    pattern: '^(auto|cpu|cuda(:\\d+)?|mps)$',
    title: 'auto, cpu, mps, cuda or cuda:N',
    default: 'auto',
    description: 'torch: auto is cuda if available, else cpu. embedded: always the CPU.',
  },
  devices: {
    ...nullable({ type: 'array', minItems: 1, items: { type: 'string', pattern: '^(cpu|cuda:\\d+)$', title: 'devices (cpu or cuda:N)' } }),
    default: null,
    description:
      'torch: several devices in place of `device`, ["cuda:1", "cuda:2"]: one process per device; whole sequences of every micro-batch are divided between them. max_tokens is for all of them together. Default: none.',
  },
  sharding: choice(
    ['auto', 'none', 'full'],
    "With `devices`: full gives each device a part of every layer (PyTorch's FSDP2), for a base that does not fit on one, and takes more time. auto: full if the base takes more than half of the free memory of one of the GPUs.",
  ),
  dtype: choice(
    ['auto', 'float32', 'bfloat16'],
    'Type of the frozen base. auto: bfloat16 on a GPU, float32 elsewhere. Adapter and Adam are always float32.',
  ),
  max_tokens: count(
    'Token budget of a micro-batch, prompts and observations included. The default, 16,384, is lowered to the number that the GPU holds. Halved if memory still runs out, and raised again after steps that fit.',
    16_384,
  ),
  gradient_checkpointing: {
    ...anyOf({ type: 'boolean' } as const, { enum: ['auto'] } as const),
    default: 'auto',
    description:
      'Recomputes activations in backward: saves memory for about a third more time. auto: on if the GPU cannot hold the activations in addition to vLLM, and if device or devices names a GPU of unknown memory; otherwise off. The embedded engine: off.',
  },
  image_cache_mb: count(
    "torch: memory, in MiB, in which each process keeps the outputs of the base's vision tower, so that each image goes through it once; the least recently used go first.",
    1024,
    0,
  ),
  threads: countOrNull(
    "CPU threads. Default: torch's own choice; embedded: that of [policy.embedded], and without it the machine's cores, at most 8. A bit-identical resume needs the same number.",
  ),
  timeout_s: positive('torch: deadline of one call, loading the base included.', 1800),
  max_restarts: count('Maximum restarts of the worker in a run after it died.', 3, 0),
});
