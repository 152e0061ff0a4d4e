/** Checks what a schema cannot: values that are each allowed but do not go together. */
import { ConfigError } from '../../core/errors.ts';
import { MAX_ADAPTER_RANK } from '../../engine/model/model-types.ts';
import { trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { redactUrl } from '../../transport/redact.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Replaces secrets in a recorded configuration. */
export const HIDDEN = '***';

/** `wrong` is true if the values do not go together; `expected` is then the error. */
interface Rule {
  readonly key: string;
  readonly wrong: (config: TrainingConfigWire) => boolean;
  /** The text after "Expected". */
  readonly expected: (config: TrainingConfigWire) => string;
}

interface EmbeddedRule {
  readonly name: 'python' | 'device' | 'dtype' | 'timeout_s';
  readonly fits: readonly (string | number)[];
  readonly remedy: string;
}

/** Keys of the torch worker, with the values that the embedded backend accepts because they make no difference. */
const EMBEDDED_BACKEND: readonly EmbeddedRule[] = [
  { name: 'python', fits: ['python3'], remedy: 'it needs no Python' },
  { name: 'device', fits: ['auto', 'cpu'], remedy: 'it runs on the CPU' },
  { name: 'dtype', fits: ['auto', 'float32'], remedy: 'it computes in float32' },
  {
    name: 'timeout_s',
    fits: [trainingConfigSchema.properties.backend.properties.timeout_s.default],
    remedy: 'its calls have no deadline',
  },
];

/** The limit of policy.embedded.threads. The engine checks it too, but only after a run has started. */
const MAX_EMBEDDED_THREADS = 64;

const RULES: readonly Rule[] = [
  {
    key: 'policy.base_url',
    // Supervised steps need none, unless the environment is played to evaluate them.
    wrong: ({ policy, steps, rollouts_file: file, evaluation }) =>
      serversNamed(policy).length === 0 && ((steps > 0 && file === null) || evaluation.every > 0),
    expected: () =>
      'a policy server: policy.base_url (-b) for a running one, [policy.launch] (--launch) to start vLLM with this run, or [policy.embedded] (--embedded) to sample in this process; got none',
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => serversNamed(policy).length > 1,
    expected: ({ policy }) =>
      `only one of policy.base_url (a running server), [policy.launch] (a vLLM started with this run) and [policy.embedded] (this process), got ${serversNamed(policy).join(' and ')}; keep one`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => [policy.base_url ?? []].flat().some((url) => !isHttpUrl(url)),
    expected: ({ policy }) =>
      `policy.base_url to begin with http:// or https://, got "${redactUrl([policy.base_url ?? []].flat().find((url) => !isHttpUrl(url))!)}"`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => [policy.base_url ?? []].flat().some((url) => url.includes(`${HIDDEN}@`) || url.includes(`=${HIDDEN}`)),
    expected: () => `policy.base_url with its credentials: a run's files hide them as ${HIDDEN}, so pass the URL again`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => new Set([policy.base_url ?? []].flat()).size !== [policy.base_url ?? []].flat().length,
    expected: () => 'every URL in policy.base_url to be different, got one twice',
  },
  {
    key: 'policy.api_key_var',
    wrong: ({ policy }) => policy.api_key_var !== null && policy.base_url === null,
    expected: ({ policy }) => `no policy.api_key_var with ${serversNamed(policy)[0]}: the run gives its server a random key`,
  },
  {
    key: 'publish.server_adapter_dir',
    wrong: ({ policy, publish }) => publish.server_adapter_dir !== null && policy.embedded !== null,
    expected: ({ publish }) =>
      `no publish.server_adapter_dir with [policy.embedded], which reads the run's own folder; got "${publish.server_adapter_dir}"`,
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ policy }) => policy.launch?.sleep === true && policy.launch.replicas > 1,
    expected: ({ policy }) =>
      `policy.launch.replicas = 1 with policy.launch.sleep, whose server and worker share one GPU; got ${policy.launch?.replicas}`,
  },
  {
    key: 'publish.quorum',
    wrong: ({ policy, publish }) => publish.quorum > replicaCount(policy),
    expected: ({ policy, publish }) => `publish.quorum to be at most the number of policy servers (${replicaCount(policy)}), got ${publish.quorum}`,
  },
  ...EMBEDDED_BACKEND.map(({ name, fits, remedy }): Rule => ({
    key: `backend.${name}`,
    wrong: ({ backend }) => backend.kind === 'embedded' && !fits.includes(backend[name]),
    expected: ({ backend }) =>
      `no backend.${name} with backend.kind = "embedded" (${remedy}), got ${JSON.stringify(backend[name])}: leave it out, or set backend.kind = "torch"`,
  })),
  {
    key: 'backend.devices',
    wrong: ({ backend }) => backend.devices !== null && backend.kind === 'embedded',
    expected: ({ backend }) =>
      `no backend.devices with backend.kind = "embedded" (backend.threads divides its work), got ${JSON.stringify(backend.devices)}: leave it out, or set backend.kind = "torch"`,
  },
  {
    key: 'backend.devices',
    wrong: ({ backend }) => backend.devices !== null && backend.device !== 'auto',
    expected: ({ backend }) =>
      `only one of backend.device and backend.devices, got "${backend.device}" and ${JSON.stringify(backend.devices)}; leave one of the two out`,
  },
  {
    key: 'backend.devices',
    wrong: ({ backend: { devices } }) =>
      devices !== null &&
      devices.some((device, i) => (device === 'cpu') !== (devices[0] === 'cpu') || (device !== 'cpu' && devices.indexOf(device) < i)),
    expected: ({ backend }) =>
      `backend.devices to be all "cpu", or all GPUs and each once (NCCL refuses two processes on one), got ${JSON.stringify(backend.devices)}`,
  },
  {
    key: 'backend.sharding',
    wrong: ({ backend }) => backend.sharding === 'full' && backend.devices === null,
    expected: () => 'backend.devices with backend.sharding = "full", which divides the base between them; got none',
  },
  {
    key: 'lora.rank',
    wrong: ({ policy, backend, lora }) => (policy.embedded !== null || backend.kind === 'embedded') && lora.rank > MAX_ADAPTER_RANK,
    expected: ({ lora }) => `lora.rank of 1 to ${MAX_ADAPTER_RANK} with the embedded engine, got ${lora.rank}`,
  },
  {
    key: 'backend.threads',
    wrong: ({ backend }) => backend.kind === 'embedded' && backend.threads !== null && backend.threads > MAX_EMBEDDED_THREADS,
    expected: ({ backend }) => `backend.threads of 1 to ${MAX_EMBEDDED_THREADS} with backend.kind = "embedded", got ${backend.threads}`,
  },
  {
    key: 'backend.threads',
    wrong: ({ policy, backend }) =>
      backend.kind === 'embedded' &&
      [backend.threads, policy.embedded?.threads ?? null].every((n) => n !== null) &&
      backend.threads !== policy.embedded?.threads,
    expected: ({ policy, backend }) =>
      `backend.threads to equal policy.embedded.threads (${policy.embedded?.threads}), because one engine samples and trains; got ${backend.threads}; leave one of the two out`,
  },
  {
    key: 'algorithm.correction.level',
    wrong: ({ algorithm: { correction, old_log_probs: old } }) => correction.level !== 'none' && old === 'sampler',
    expected: ({ algorithm }) =>
      `algorithm.old_log_probs = "trainer" with algorithm.correction.level = "${algorithm.correction.level}", because the sampler's own log-probs need no correction; got "sampler"`,
  },
  {
    key: 'algorithm.correction.level',
    wrong: ({ algorithm: { correction, loss } }) => correction.level === 'token' && loss.ratio === 'sequence',
    expected: () =>
      'algorithm.correction.level "sequence", "geometric" or "none" with algorithm.loss.ratio = "sequence" (one ratio per sequence), got "token"',
  },
  {
    key: 'algorithm.correction.min',
    wrong: ({ algorithm: { correction } }) => correction.min >= correction.max,
    expected: ({ algorithm: { correction } }) => `algorithm.correction.min below max (${correction.max}), got ${correction.min}`,
  },
  {
    key: 'rollouts.max_staleness',
    wrong: ({ rollouts, algorithm }) => rollouts.max_staleness > 0 && algorithm.old_log_probs === 'trainer' && algorithm.correction.level === 'none',
    expected: ({ rollouts }) =>
      `algorithm.old_log_probs = "sampler", or a correction.level, with rollouts.max_staleness = ${rollouts.max_staleness}; otherwise nothing corrects for the staleness of the sampled weights; got "trainer" and "none"`,
  },
  {
    key: 'algorithm.advantage.baseline',
    wrong: ({ algorithm: { advantage } }) => advantage.baseline === 'leave_one_out' && advantage.scope !== 'group',
    expected: ({ algorithm: { advantage } }) =>
      `algorithm.advantage.baseline = "mean" with algorithm.advantage.scope = "${advantage.scope}" (leave-one-out compares the rollouts of a row), got "leave_one_out"`,
  },
  ...(['weighting', 'decay'] as const).map((name): Rule => ({
    key: `algorithm.advantage.${name}`,
    wrong: ({ algorithm: { advantage } }) =>
      (advantage.scope === 'group' || advantage.scope === 'none') && advantage[name] !== (name === 'decay' ? 0 : 'sequence'),
    expected: ({ algorithm: { advantage } }) =>
      `algorithm.advantage.scope to be "role_task", "role" or "batch" with algorithm.advantage.${name} = ${JSON.stringify(advantage[name])}, got "${advantage.scope}"`,
  })),
  {
    key: 'algorithm.loss.args',
    wrong: ({ algorithm: { loss } }) => loss.use === 'ratio' && Object.keys(loss.args).length > 0,
    expected: () => 'no algorithm.loss.args with algorithm.loss.use = "ratio", whose settings are the other keys of the table',
  },
  {
    key: 'steps',
    wrong: ({ steps, sft }) => steps === 0 && sft.data === null,
    expected: () => 'steps of at least 1 without supervised steps ([sft] data, --sft), got 0',
  },
  {
    key: 'sft.mix_weight',
    wrong: ({ sft }) => sft.mix_weight > 0 && sft.data === null,
    expected: ({ sft }) => `sft.data with sft.mix_weight = ${sft.mix_weight}, got none`,
  },
  {
    key: 'sft.held_out',
    wrong: ({ sft }) => sft.held_out > 0 && sft.validation !== null,
    expected: () => 'only one of sft.held_out and sft.validation, got both; keep one',
  },
  {
    key: 'source',
    wrong: ({ source, rollouts_file: file }) => source !== null && file !== null,
    expected: () => 'only one of source and rollouts_file (--rollouts), got both; keep one',
  },
  {
    key: 'rollouts_file',
    wrong: ({ rollouts, rollouts_file: file }) => file !== null && (rollouts.max_refills > 0 || rollouts.max_staleness > 0),
    expected: () => 'rollouts.max_refills = 0 and rollouts.max_staleness = 0 with rollouts_file (--rollouts), because nothing is sampled',
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ rollouts, policy }) => policy.launch?.sleep === true && rollouts.max_staleness > 0,
    expected: () => 'rollouts.max_staleness = 0 with policy.launch.sleep = true, because vLLM cannot sample while it sleeps; got 1',
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ policy, backend }) => policy.launch?.sleep === true && backend.kind === 'embedded',
    expected: () => 'backend.kind = "torch" with policy.launch.sleep = true, because the embedded engine trains on the CPU; got "embedded"',
  },
  {
    key: 'algorithm.loss.dual_clip',
    wrong: ({ algorithm: { loss } }) => loss.dual_clip !== null && loss.objective !== 'clip',
    expected: ({ algorithm: { loss } }) =>
      `algorithm.loss.objective = "clip" with algorithm.loss.dual_clip = ${loss.dual_clip}, got "${loss.objective}"`,
  },
  {
    key: 'algorithm.loss.dual_clip',
    wrong: ({ algorithm: { loss } }) => loss.dual_clip !== null && loss.dual_clip <= 1 + loss.clip_high,
    expected: ({ algorithm: { loss } }) =>
      `algorithm.loss.dual_clip above 1 + clip_high (${1 + loss.clip_high}), because it bounds ratios beyond the clip; got ${loss.dual_clip}`,
  },
  {
    key: 'algorithm.loss.ratio_min',
    wrong: ({ algorithm: { loss } }) => loss.ratio_min >= loss.ratio_max,
    expected: ({ algorithm: { loss } }) => `algorithm.loss.ratio_min below ratio_max (${loss.ratio_max}), got ${loss.ratio_min}`,
  },
  {
    key: 'algorithm.loss.ratio',
    wrong: ({ algorithm: { loss } }) => loss.ratio === 'sequence' && loss.objective === 'cispo',
    expected: () => 'algorithm.loss.ratio = "token" with objective = "cispo" (its weights are per token), got "sequence"',
  },
  {
    key: 'algorithm.loss.max_tokens',
    wrong: ({ algorithm: { loss } }) => loss.max_tokens !== null && loss.aggregation !== 'constant',
    expected: ({ algorithm: { loss } }) =>
      `algorithm.loss.aggregation = "constant" with algorithm.loss.max_tokens = ${loss.max_tokens} (only "constant" uses it), got "${loss.aggregation}"`,
  },
  {
    key: 'algorithm.kl.placement',
    wrong: ({ algorithm: { kl } }) => kl.coefficient > 0 && kl.placement === 'reward' && kl.against === 'old',
    expected: () => 'algorithm.kl.against = "reference" with placement = "reward", because the KL of the sampling policy to itself is 0; got "old"',
  },
  {
    key: 'algorithm.minibatches',
    wrong: ({ algorithm, rollouts }) => algorithm.minibatches > rollouts.examples_per_step,
    expected: ({ algorithm, rollouts }) =>
      `algorithm.minibatches to be at most rollouts.examples_per_step (${rollouts.examples_per_step}), because groups are never split; got ${algorithm.minibatches}`,
  },
  {
    key: 'optimizer.warmup_steps',
    wrong: ({ optimizer, steps }) => steps > 0 && optimizer.warmup_steps > steps,
    expected: ({ optimizer, steps }) => `optimizer.warmup_steps to be at most steps (${steps}), got ${optimizer.warmup_steps}`,
  },
  {
    key: 'optimizer.min_learning_rate',
    wrong: ({ optimizer }) => optimizer.min_learning_rate > optimizer.learning_rate,
    expected: ({ optimizer }) =>
      `optimizer.min_learning_rate to be at most learning_rate (${optimizer.learning_rate}), got ${optimizer.min_learning_rate}`,
  },
  {
    key: 'evaluation.examples',
    wrong: ({ evaluation }) => evaluation.every > 0 && evaluation.examples === 0,
    expected: () => 'evaluation.examples to be -1 (all rows) or at least 1, got 0; evaluation.every = 0 turns evaluation off',
  },
];

/** Throws a one-line ConfigError for the first broken rule. */
export function checkConfig(config: TrainingConfigWire, origin: (key: string) => string): void {
  for (const { key, wrong, expected } of RULES) {
    if (!wrong(config)) continue;
    const source = origin(key);
    throw new ConfigError(`Expected ${expected(config)}${source === 'default' ? '' : ` (${source})`}`);
  }
  const { environment, policy } = config;
  for (const [path, table] of [
    ['environment.args', environment.args],
    ['environment.eval_args', environment.eval_args],
    ['policy.launch.env', policy.launch?.env ?? {}],
  ] as const) {
    const hidden = hiddenKey(table, path);
    if (hidden === null) continue;
    throw new ConfigError(`${hidden} is a secret that the run's files hide as ${HIDDEN}; pass it again with --set, or in the environment`);
  }
}

/** The configured servers, named as in a file. */
function serversNamed({ base_url: baseUrl, launch, embedded }: TrainingConfigWire['policy']): string[] {
  return [
    ...(baseUrl === null ? [] : ['policy.base_url']),
    ...(launch === null ? [] : ['[policy.launch]']),
    ...(embedded === null ? [] : ['[policy.embedded]']),
  ];
}

function replicaCount({ base_url: baseUrl, launch }: TrainingConfigWire['policy']): number {
  return launch?.replicas ?? Math.max(1, [baseUrl ?? []].flat().length);
}

function hiddenKey(value: unknown, path: string): string | null {
  if (value === HIDDEN || (Array.isArray(value) && value.some((item) => hiddenKey(item, path) !== null))) return path;
  if (!isObject(value)) return null;
  return Object.entries(value).reduce<string | null>((found, [key, inner]) => found ?? hiddenKey(inner, `${path}.${key}`), null);
}

function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}
