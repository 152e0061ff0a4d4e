/**
 * The configuration of a training run, once: every key with its type, bounds, default and meaning. The TOML file, `--set`, `--help`, the documentation
 * and the static type all come from this schema. Keys are snake_case on disk; `TrainingConfig` is the same in camelCase.
 */
import type { XStatic } from 'typebox/schema';
import { count, flag, free, share, table, text, textOrNull } from './config-table.ts';
import { rolesSchema } from './roles-config.ts';
import { algorithm, optimizer } from './training-algorithm-config.ts';

const environment = table('What is played.', {
  id: text('An environment id or a path, as for vf-eval.'),
  args: free('Arguments of the environment that trains.'),
  eval_args: free(
    'Set over `args` for an environment of its own that evaluates. Default: none, the environment that trains also has the held-out rows.',
  ),
});

const model = table('The base model, as the gradient backend loads it.', {
  path: text(
    'A Hugging Face directory (config.json, *.safetensors, tokenizer.json), a model of this package by name (nano-base), or a hub id that vLLM and torch resolve.',
  ),
  initial_adapter: textOrNull('A PEFT directory to start from; its rank and targets must be those of [lora]. Default: B = 0, the base itself.'),
});

const launch = table('Start vLLM as a child of this run.', {
  python: { ...text('The Python that has vLLM.'), default: 'python3' },
  args: { type: 'array', items: { type: 'string' }, default: [], description: 'Further flags of vLLM, set after those that the run implies.' },
  env: { type: 'object', additionalProperties: { type: 'string' }, default: {}, description: 'Further environment variables.' },
  ready_timeout_s: {
    type: 'number',
    exclusiveMinimum: 0,
    default: 900,
    description: 'How long it may take until it is healthy: a large model loads for minutes.',
  },
  max_restarts: count('How often in a run it is started again after it died.', 5, 0),
});

const embedded = table('Sample in this process: the embedded engine behind the routes of vLLM, on loopback. Needs Node alone.', {
  threads: {
    type: ['integer', 'null'],
    minimum: 1,
    maximum: 64,
    default: null,
    description: 'Threads that compute. Default: the cores of the machine, at most 8. With backend.kind = "embedded" the same threads train.',
  },
  cache_tokens: {
    type: ['integer', 'null'],
    minimum: 1,
    default: null,
    description: "Room of each thread's key-value cache, in tokens. Default: its share of 64 MiB, and at least the longest context.",
  },
  max_restarts: count('How often in a run it is opened again after one of its threads died.', 5, 0),
});

const policy = table('The server that samples: one of base_url, [policy.launch] and [policy.embedded].', {
  base_url: {
    anyOf: [{ type: 'string', minLength: 1 }, { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } }, { type: 'null' }],
    default: null,
    description: 'One URL, or one for each replica, up to and with /v1.',
  },
  model: textOrNull('The base model as the server calls it. Default: the only model that it serves.'),
  api_key_var: textOrNull('Environment variable that holds the API key.'),
  launch: { anyOf: [launch, { type: 'null' }], default: null },
  embedded: { anyOf: [embedded, { type: 'null' }], default: null },
});

const lora = table('The adapter: LoRA on linear layers.', {
  rank: count('Of every adapted layer; the server must allow it (--max-lora-rank).', 16),
  alpha: {
    type: 'number',
    exclusiveMinimum: 0,
    default: 32,
    description: 'The adapter adds (alpha / rank) · B A x. 32 in "LoRA Without Regret" (Thinking Machines, 2025).',
  },
  targets: {
    type: 'array',
    minItems: 1,
    uniqueItems: true,
    items: { enum: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] },
    default: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    description: 'Layers by name. All of them by default: the MLP matters most ("LoRA Without Regret").',
  },
});

const rollouts = table('What is sampled for each step.', {
  examples_per_step: count('Rows, and so groups, of each step.', 64),
  rollouts_per_example: count('Members of a group: GRPO compares them with each other.', 8, 2),
  max_concurrent: count('Rollouts in flight at once.', 256),
  temperature: {
    type: 'number',
    exclusiveMinimum: 0,
    maximum: 2,
    default: 1,
    description: 'Of sampling; the trainer divides its logits by it too. top_p is 1 always: below it no trainer can reproduce the log-probs.',
  },
  max_tokens: {
    type: ['integer', 'null'],
    minimum: 1,
    default: null,
    description: "New tokens of a generation. Default: the environment's own limit.",
  },
  timeout_s: {
    type: ['number', 'null'],
    exclusiveMinimum: 0,
    default: 600,
    description: 'Wall clock of one attempt at a rollout; null sets none.',
  },
  max_scoring: {
    type: ['integer', 'null'],
    minimum: 1,
    default: null,
    description: 'Rollouts scored at once, apart from those that are played. Default: max_concurrent.',
  },
  scoring_timeout_s: {
    type: ['number', 'null'],
    exclusiveMinimum: 0,
    default: null,
    description: 'Wall clock of one attempt at the rewards of a rollout. Default: timeout_s.',
  },
  max_retries: count('Further attempts at a request that failed for a reason that may pass.', 3, 0),
  truncated: {
    enum: ['train', 'mask'],
    default: 'train',
    description:
      "A rollout that a length limit cut short: `train` it like any other (upstream), or `mask`: it counts in its group but no token of it is trained (DAPO's overlong filtering).",
  },
  max_error_rate: share('A step of which a larger share of rollouts failed is not trained on but sampled again.', 0.1),
  repeat_pause_s: {
    type: 'number',
    minimum: 0,
    default: 5,
    description: 'Wait before the failed rollouts of a step are sampled again; doubled each time, of five times.',
  },
  max_staleness: {
    enum: [0, 1],
    default: 0,
    description:
      '0: sample, train, publish, in turn. 1: while a step trains, the next one is sampled from the weights before it; importance ratios correct for that.',
  },
});

const backend = table('Who differentiates the model.', {
  kind: {
    enum: ['torch', 'embedded'],
    default: 'torch',
    description:
      'torch: a PyTorch worker, a child process. embedded: the embedded engine, in this process and in float32; dense Qwen3 only, no Python.',
  },
  python: { ...text('torch: the Python that has torch, transformers and safetensors.'), default: 'python3' },
  device: {
    type: 'string',
    pattern: '^(auto|cpu|cuda(:\\d+)?|mps)$',
    default: 'auto',
    description: 'torch: auto is cuda where there is one, else cpu. embedded: the CPU.',
  },
  dtype: {
    enum: ['auto', 'float32', 'bfloat16'],
    default: 'auto',
    description: 'Of the frozen base. auto: bfloat16 on a GPU, float32 elsewhere. Adapter and Adam are float32.',
  },
  max_tokens: count('Tokens of a micro-batch, prompts and observations included; halved by itself when memory runs out.', 16_384),
  gradient_checkpointing: flag('Saves memory, costs about a third more time.', false),
  threads: {
    type: ['integer', 'null'],
    minimum: 1,
    default: null,
    description: "CPU threads. Default: torch's own number; embedded: that of [policy.embedded]. Resuming bit for bit needs the same number.",
  },
  timeout_s: { type: 'number', exclusiveMinimum: 0, default: 1800, description: 'torch: deadline of one call, loading the base included.' },
  max_restarts: count('How often in a run the worker is started again after it died.', 3, 0),
});

const publish = table('How new weights reach the server.', {
  server_adapter_dir: textOrNull("Where the server sees the run's adapters/ folder, if it is not the same path (containers)."),
  probe_tolerance: {
    type: ['number', 'null'],
    exclusiveMinimum: 0,
    default: null,
    description:
      "Largest mean |Δ log-prob| between server and trainer that passes, in nats. Default: 0.001 in float32, 0.05 otherwise. A server that goes on giving the base's own numbers fails whatever this is.",
  },
  load_timeout_s: { type: 'number', exclusiveMinimum: 0, default: 300, description: 'Deadline of loading an adapter on one replica.' },
});

const evaluation = table('Held-out rows, sampled as in training.', {
  every: count('Steps between evaluations; also before the first step and after the last. 0: never.', 10, 0),
  examples: count('Rows, from the first on; -1: all.', -1, -1),
  rollouts_per_example: count('Rollouts of each row.', 1),
  temperature: { type: ['number', 'null'], minimum: 0, maximum: 2, default: null, description: 'Default: that of training.' },
});

const checkpoint = table('What survives.', {
  every: count('Steps between checkpoints. Resuming repeats the steps since the last one from the recorded rollouts, to the same weights.', 10),
  keep: count('Checkpoints kept, the newest. 0: all.', 2, 0),
  keep_rollouts: flag('Keep the rollouts of every step, not only of those since the oldest checkpoint kept.', false),
});

const guards = table('When a run stops or warns by itself.', {
  max_skipped_steps: count(
    'Steps in a row without an update (gradient not finite, all groups constant, all rollouts failed) before the run stops.',
    10,
  ),
  min_entropy: { type: ['number', 'null'], minimum: 0, default: null, description: 'Alarm below this mean entropy estimate, in nats per token.' },
  max_kl: { type: ['number', 'null'], exclusiveMinimum: 0, default: null, description: 'Alarm above this mean KL of a step, in nats per token.' },
  max_log_prob_difference: {
    type: ['number', 'null'],
    exclusiveMinimum: 0,
    default: null,
    description: 'Alarm above this mean |Δ log-prob| between server and trainer on tokens that it just sampled.',
  },
  on_alarm: { enum: ['warn', 'stop'], default: 'warn', description: 'What an alarm does; a stopped run can be resumed.' },
});

export const trainingConfigSchema = table('A training run.', {
  name: {
    type: ['string', 'null'],
    pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$',
    default: null,
    description: 'Of the run: its folder and its adapters are named after it. Default: environment and model.',
  },
  seed: count('Order of rows, initial adapter, retries, and what the embedded engine samples. Never sent to a server of another process.', 0, 0),
  steps: count('Batches of groups to train on.', 100),
  output_dir: { ...text('Where the run gets its folder.'), default: 'outputs' },
  environment,
  roles: rolesSchema,
  model,
  policy,
  lora,
  rollouts,
  algorithm,
  optimizer,
  backend,
  publish,
  evaluation,
  checkpoint,
  guards,
});

/** As it stands on disk, complete: defaults filled in. */
export type TrainingConfigWire = Complete<XStatic<typeof trainingConfigSchema>>;

/** Required through and through: XStatic reads `required` only where it is a literal. */
type Complete<T> = T extends readonly (infer I)[]
  ? readonly Complete<I>[]
  : T extends object
    ? string extends keyof T
      ? T
      : { readonly [K in keyof T]-?: Complete<Exclude<T[K], undefined>> }
    : T;

type CamelKey<K extends string> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : K;
/** Keys of these tables are names that somebody else gave. */
type Verbatim = 'args' | 'eval_args' | 'env' | 'roles';
type Camel<T> = T extends readonly (infer I)[]
  ? readonly Camel<I>[]
  : T extends object
    ? { readonly [K in keyof T & string as CamelKey<K>]: K extends Verbatim ? T[K] : Camel<T[K]> }
    : T;

export type TrainingConfig = Camel<TrainingConfigWire>;

const VERBATIM: readonly string[] = ['args', 'eval_args', 'env', 'roles'] satisfies Verbatim[];

/** The same configuration in the spelling of the code. */
export function trainingConfigFromWire(wire: TrainingConfigWire): TrainingConfig {
  return camelKeys(wire) as TrainingConfig;
}

function camelKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [
    key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    VERBATIM.includes(key) ? (inner as unknown) : camelKeys(inner),
  ]);
  return Object.fromEntries(entries) as unknown;
}
