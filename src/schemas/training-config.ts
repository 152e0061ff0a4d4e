/**
 * Schema of a training run's configuration: every key with type, bounds, default and meaning. The TOML file, `--set`, `--help`, the documentation and
 * the static type are all derived from it. Keys are snake_case on disk; `TrainingConfig` is the same in camelCase.
 */
import type { XStatic } from 'typebox/schema';
import { choice, count, countOrNull, flag, free, number, numberOrNull, positive, share, table, text, textOrNull, textWith } from './config-table.ts';
import { anyOf, filledListOf, filledText, nullable } from './json-schema.ts';
import { type Camel, camelKeys } from './key-case.ts';
import { rolesSchema } from './roles-config.ts';
import { RUN_NAME_PATTERN, RUN_NAME_TITLE } from './run-name.ts';
import { algorithm, losses, optimizer } from './training-algorithm-config.ts';
import { backend } from './training-backend-config.ts';
import { publish } from './training-publish-config.ts';
import { sft } from './training-sft-config.ts';

const environment = table('The environment.', {
  id: text('An environment id or a path, as in vf-eval.'),
  args: free('Arguments of the training environment.'),
  eval_args: free('Override `args` for a separate evaluation environment. Default: none; the training environment also has the held-out rows.'),
});

const model = table('The base model, as the gradient backend loads it.', {
  path: text(
    'A Hugging Face directory (config.json, *.safetensors, tokenizer.json), a bundled model by name (nano-base, nano-copy, nano-o1, nano-coder, nano-pages), or a hub id (owner/name), which is downloaded.',
  ),
  initial_adapter: textOrNull(
    'A PEFT directory to start from; [lora] must have its rank, alpha and targets. Default: B = 0, which is the base itself.',
  ),
});

const launch = table('Starts vLLM as a child process of this run.', {
  python: textWith('A Python with vLLM.', 'python3'),
  replicas: count('Number of vLLM processes, each with a port of its own; rollouts are divided between them. One that dies is restarted alone.', 1),
  tensor_parallel_size: count('Number of GPUs that hold one replica together (--tensor-parallel-size).', 1),
  args: { type: 'array', items: { type: 'string' }, default: [], description: "Further flags of vLLM, after the run's own." },
  env: { type: 'object', additionalProperties: { type: 'string' }, default: {}, description: 'Further environment variables.' },
  sleep: flag(
    "vLLM and the worker take turns on one GPU that is too small for both: vLLM sleeps while the worker computes (vLLM's sleep mode). Needs max_staleness = 0, replicas = 1 and the torch worker.",
    false,
  ),
  ready_timeout_s: positive('Deadline for becoming healthy; a large model takes minutes to load.', 900),
  max_restarts: count('Maximum restarts of each replica after it died, per process of the run.', 5, 0),
});

const embedded = table("Samples in this process: the embedded engine behind vLLM's routes on loopback. Needs only Node.", {
  threads: {
    ...countOrNull('Compute threads. Default: the machine\'s cores, at most 8. With backend.kind = "embedded" the same threads train.'),
    maximum: 64,
  },
  cache_tokens: countOrNull("Size of each thread's key-value cache, in tokens. Default: its share of 64 MiB, at least the longest context."),
  max_restarts: count('Maximum restarts in a run after one of its threads died.', 5, 0),
});

const policy = table('The policy server, which samples: exactly one of base_url, [policy.launch] and [policy.embedded].', {
  base_url: {
    ...anyOf(filledText, filledListOf(filledText), { type: 'null' }),
    default: null,
    description: 'One URL, or a list with one per replica, up to and with /v1.',
  },
  model: textOrNull("The server's name of the base model. Default: its only model."),
  api_key_var: textOrNull('Environment variable that holds the API key.'),
  keep_adapter: flag(
    'Leave the last version loaded at base_url when the run ends, under the name in its summary. Otherwise a run unloads everything it loaded there, because a server has few adapter slots.',
    false,
  ),
  launch: { ...nullable(launch), default: null },
  embedded: { ...nullable(embedded), default: null },
});

const lora = table('The adapter: LoRA on linear layers.', {
  rank: count('Rank of every adapted layer; the server must allow it (--max-lora-rank).', 16),
  alpha: positive('The adapter adds (alpha / rank) · B A x. 32 in "LoRA Without Regret" (Thinking Machines, 2025).', 32),
  targets: {
    type: 'array',
    minItems: 1,
    uniqueItems: true,
    items: { enum: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] },
    default: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    description: 'Adapted layers by name. All by default, because the MLP matters most ("LoRA Without Regret").',
  },
});

const rollouts = table('The rollouts of each step.', {
  examples_per_step: count('Rows per step; each row gives one group.', 64),
  rollouts_per_example: count(
    'Rollouts per row, which form a group: GRPO compares them with each other. 1: only with a credit that compares no group, such as algorithm.advantage.scope = "batch".',
    8,
  ),
  max_concurrent: count('Concurrent rollouts.', 256),
  temperature: number(
    'Sampling temperature; the trainer divides its logits by it too. top_p is always 1, because no trainer can reproduce the log-probs of a lower one.',
    1,
    { exclusiveMinimum: 0, maximum: 2 },
  ),
  max_tokens: countOrNull("Limit of new tokens per generation. Default: the environment's limit."),
  timeout_s: numberOrNull('Deadline of one attempt at a rollout, not counting waits for a slot of a role; null sets none.', 600),
  max_scoring: countOrNull('Rollouts scored at once, in addition to those being played. Default: max_concurrent.'),
  scoring_timeout_s: numberOrNull(
    'Deadline of one attempt at the rewards of a rollout. A wait for a slot of a role does not count, nor do the calls of roles in the `finish` hook: the limits of [roles.*] bound these. Also the deadline of each call of a credit of your own (algorithm.advantage.use). Default: timeout_s.',
    null,
  ),
  max_retries: count('Retries of a request after a transient failure.', 3, 0),
  truncated: choice(
    ['train', 'mask'],
    "What happens to rollouts cut short by a length limit. `train`: they train like any other (upstream). `mask`: they count in their group, but none of their tokens is trained (DAPO's overlong filtering).",
  ),
  max_error_rate: share("If a larger share of a step's rollouts failed, the step is sampled again instead of trained on.", 0.1),
  repeat_pause_s: number('Pause before failed rollouts are sampled again; doubles before each further attempt, of five in all.', 5),
  max_refills: count(
    'Dynamic sampling (DAPO): rounds in which groups with equal rewards, or with fewer than two finished rollouts, are replaced by groups of other rows. With max_staleness of 2 or more: such groups are not taken, at most this many times examples_per_step in a step. 0: none.',
    0,
    0,
  ),
  max_staleness: count(
    '0: sample, train and publish in turn. 1: sample the next batch during training, from the weights before the update; rollouts that begin after the update is published (those beyond max_concurrent, and repeated ones) get the new weights, so a run is a function of its seed only with 0. 2 or more: groups enter a step as they finish, and one may be as many versions old as this says (a `source` of your own plays a step as a whole, and is at most one step ahead). Importance ratios correct for the staleness.',
    0,
    0,
  ),
  stale_groups: choice(
    ['drop', 'weight'],
    'With max_staleness of 2 or more: a group that grew older than that is dropped, or its advantages are multiplied by max_staleness / age.',
  ),
});

const evaluation = table('Evaluation on held-out rows, sampled as in training.', {
  every: count('Steps between evaluations; also evaluates before the first step and after the last. 0: never.', 10, 0),
  examples: count('Number of rows, from the first; -1: all.', -1, -1),
  rollouts_per_example: count('Rollouts per row.', 1),
  temperature: numberOrNull("Sampling temperature. Default: training's.", null, { minimum: 0, maximum: 2 }),
});

const checkpoint = table('Checkpoints.', {
  every: count('Steps between checkpoints. A resume repeats the steps since the last one from the recorded rollouts, to the same weights.', 10),
  keep: count('Number of newest checkpoints to keep. 0: all.', 2, 0),
  best: textWith(
    'What chooses the adapter that is kept in best/: auto, reward, validation_loss, none, or the name of a metric of the evaluation, such as em (metric_for_best_model of TRL). auto: of steps on rollouts the evaluation reward, of supervised steps the loss on rows held out; nothing without either.',
    'auto',
  ),
  greater_is_better: flag('Of a metric that best names: whether the highest value is the best. False: the lowest.', true),
  keep_rollouts: flag(
    'Keep the rollouts of every step for reading; those before the oldest kept checkpoint are compressed. False: keep only those since that checkpoint, which a resume may need.',
    true,
  ),
  max_rollouts_gb: positive(
    'Size limit of the kept rollouts, in GB (10⁹ bytes). Beyond it, the oldest are thinned: first they lose token ids and log-probs, then steps are left out. Files that a resume may need always stay.',
    4,
  ),
});

const guards = table('Conditions under which a run stops or warns by itself.', {
  max_skipped_steps: count(
    'The run stops after this many consecutive steps without an update (gradient not finite, all groups constant, all rollouts failed).',
    10,
  ),
  min_entropy: numberOrNull('Alarm below this mean entropy estimate, in nats per token.', null, { minimum: 0 }),
  max_kl: numberOrNull('Alarm above this value of the metric kl if the loss has a KL penalty, else of approx_kl, in nats per token.', null),
  skip_kl: numberOrNull(
    'An optimiser step is skipped if the mean KL(π_old || π) of its tokens, the metric approx_kl, is above this, in nats per token. Always 0 in the first optimiser step of a batch unless old_log_probs = "sampler".',
    null,
    { minimum: 0 },
  ),
  max_log_prob_difference: numberOrNull(
    'Alarm above this mean |Δ log-prob| between server and trainer on freshly sampled tokens, in nats. The default is far above the difference that quantisation or another kernel causes.',
    1,
  ),
  max_cost: numberOrNull(
    'No further step begins once the models by role and a training service have cost this many US dollars; the run stops with exit code 3, and -R with a higher limit continues it. All of them need a price in configs/endpoints.toml. Default: no limit.',
    null,
    { minimum: 0.000001 },
  ),
  on_alarm: choice(['warn', 'stop'], 'Effect of an alarm; a stopped run can be resumed.'),
});

const wandb = table('Writes the metrics as a run of Weights & Biases, in its offline format; `wandb sync` uploads it. Needs no Python and no key.', {
  project: { ...text('The project.'), default: 'vf-search' },
  entity: textOrNull('The user or team. Default: the one that `wandb sync` chooses.'),
  group: textOrNull(
    "The group of the run. Default: the name of the run's folder, which groups the parts that a run wrote before and after a resume.",
  ),
  tags: { ...anyOf(filledListOf(filledText), { type: 'null' }), default: null, description: 'Tags of the run. Default: none.' },
});

const logging = table('Where metrics go in addition to metrics.jsonl.', {
  tensorboard: flag("Write TensorBoard's event files, into tensorboard/ in the run's folder.", false),
  wandb: { ...nullable(wandb), default: null },
});

export const trainingConfigSchema = table('A training run.', {
  name: {
    type: ['string', 'null'],
    pattern: RUN_NAME_PATTERN,
    title: RUN_NAME_TITLE,
    default: null,
    description:
      'Name of the run in every list, plot and card, and as letters, digits, - and _ in its folder and its adapters. A resume keeps it, or may change it. Default: environment and model.',
  },
  seed: count(
    "Seeds the order of rows, the initial adapter, retries and the embedded engine's sampling. Never sent to a server in another process.",
    0,
    0,
  ),
  steps: count('Number of training steps on rollouts, one batch of groups each; supervised steps ([sft]) come first and are not counted.', 100, 0),
  source: textOrNull(
    "Module (./my-source.ts) that exports createSource: where the trajectories of a step come from. Default: the environment's own source if it has one, else sampled rollouts.",
  ),
  rollouts_file: textOrNull("Rollouts to train on instead of sampling: a file in vf-export's form, or - for stdin."),
  output_dir: { ...text("Parent of the run's folder, which is created in its train/."), default: 'outputs' },
  environment,
  roles: rolesSchema,
  model,
  policy,
  lora,
  rollouts,
  algorithm,
  losses,
  optimizer,
  sft,
  backend,
  publish,
  evaluation,
  checkpoint,
  guards,
  logging,
});

/** The configuration as on disk, with defaults filled in. */
export type TrainingConfigWire = XStatic<typeof trainingConfigSchema>;

/** Values under these keys have names from elsewhere and stay unchanged. */
const VERBATIM = ['args', 'eval_args', 'env', 'roles', 'losses'] as const;

export type TrainingConfig = Camel<TrainingConfigWire, (typeof VERBATIM)[number]>;

/** Converts the configuration's keys to camelCase. */
export function trainingConfigFromWire(wire: TrainingConfigWire): TrainingConfig {
  return camelKeys(wire, VERBATIM) as TrainingConfig;
}
