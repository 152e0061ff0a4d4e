/** Checks what a schema cannot: values that are each allowed but do not go together. */
import { ConfigError } from '../../core/errors.ts';
import { MAX_ADAPTER_RANK } from '../../engine/model/model-types.ts';
import { trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { redactUrl } from '../../transport/redact.ts';
import { isObject } from '../../schemas/is-object.ts';
import { ALGORITHM_RULES } from './algorithm-rules.ts';
import { IN_FLIGHT_RULES } from './in-flight-rules.ts';
import { LOGGING_RULES } from './logging-rules.ts';
import { TEACHER_RULES } from './teacher-rules.ts';
import { TINKER_RULES } from './tinker-rules.ts';
import { serverRoot } from '../../core/server-url.ts';

/** Replaces secrets in a recorded configuration. */
export const HIDDEN = '***';

/** The error of a run that samples and has no server to sample from. */
export const NO_POLICY_SERVER =
  'No policy server is named; set policy.base_url for a running one, [policy.launch] to start vLLM with this run, or [policy.embedded] to sample in this process';

/** `wrong` is true if the values do not go together; `problem` is then the error. */
export interface ConfigRule {
  readonly key: string;
  readonly wrong: (config: TrainingConfigWire) => boolean;
  readonly problem: (config: TrainingConfigWire) => string;
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

const RULES: readonly ConfigRule[] = [
  {
    key: 'policy.base_url',
    // Supervised steps need none, unless the environment is played to evaluate them.
    wrong: ({ policy, backend, steps, rollouts_file: file, evaluation }) =>
      serversNamed(policy).length === 0 && backend.kind !== 'tinker' && ((steps > 0 && file === null) || evaluation.every > 0),
    problem: () => NO_POLICY_SERVER,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => serversNamed(policy).length > 1,
    problem: ({ policy }) =>
      `Only one of policy.base_url (a running server), [policy.launch] (a vLLM started with this run) and [policy.embedded] (this process) may be set, got ${serversNamed(policy).join(' and ')}; keep one`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => [policy.base_url ?? []].flat().some((url) => !isHttpUrl(url)),
    problem: ({ policy }) =>
      `policy.base_url must begin with http:// or https://, got "${redactUrl([policy.base_url ?? []].flat().find((url) => !isHttpUrl(url))!)}"`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => [policy.base_url ?? []].flat().some((url) => url.includes(`${HIDDEN}@`) || url.includes(`=${HIDDEN}`)),
    problem: () => `policy.base_url lacks its credentials: a run's files hide them as ${HIDDEN}, so pass the URL again`,
  },
  {
    key: 'policy.base_url',
    wrong: ({ policy }) => {
      const servers = [policy.base_url ?? []].flat().map(serverRoot);
      return new Set(servers).size !== servers.length;
    },
    problem: () => 'Every URL in policy.base_url must be another server, got one twice',
  },
  {
    key: 'policy.api_key_var',
    wrong: ({ policy }) => policy.api_key_var !== null && policy.base_url === null,
    problem: ({ policy }) => {
      const [server] = serversNamed(policy);
      return server === undefined
        ? 'policy.api_key_var needs policy.base_url: this run has no policy server'
        : `policy.api_key_var must be left out with ${server}: the run gives its server a random key`;
    },
  },
  {
    key: 'policy.keep_adapter',
    wrong: ({ policy }) => policy.keep_adapter && policy.base_url === null,
    problem: () => 'policy.keep_adapter needs policy.base_url: a server of this run ends with it',
  },
  {
    key: 'policy.launch.args',
    // The only flag of vLLM that takes a secret, apart from those that the run sets itself. Without a value it uses the token of `hf auth login`.
    wrong: ({ policy }) =>
      (policy.launch?.args ?? []).some(
        (arg, i, all) => /^--hf[-_]token(=|$)/.test(arg) && (arg.includes('=') || all[i + 1]?.startsWith('-') === false),
      ),
    problem: () => 'policy.launch.args must hold no token, because they are recorded and shown; set HF_TOKEN in the environment or in .env',
  },
  {
    key: 'publish.server_adapter_dir',
    wrong: ({ policy, publish }) => publish.server_adapter_dir !== null && policy.embedded !== null,
    problem: ({ publish }) =>
      `publish.server_adapter_dir must be left out with [policy.embedded], which reads the run's own folder; got "${publish.server_adapter_dir}"`,
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ policy }) => policy.launch?.sleep === true && policy.launch.replicas > 1,
    problem: ({ policy }) =>
      `policy.launch.replicas must be 1 with policy.launch.sleep, whose server and worker share one GPU; got ${policy.launch?.replicas}`,
  },
  {
    key: 'publish.quorum',
    wrong: ({ policy, publish }) => publish.quorum > replicaCount(policy),
    problem: ({ policy, publish }) => `publish.quorum must be at most the number of policy servers (${replicaCount(policy)}), got ${publish.quorum}`,
  },
  ...EMBEDDED_BACKEND.map(({ name, fits, remedy }): ConfigRule => ({
    key: `backend.${name}`,
    wrong: ({ backend }) => backend.kind === 'embedded' && !fits.includes(backend[name]),
    problem: ({ backend }) =>
      `backend.${name} must be left out with backend.kind = "embedded" (${remedy}), got ${JSON.stringify(backend[name])}: leave it out, or set backend.kind = "torch"`,
  })),
  {
    key: 'backend.devices',
    wrong: ({ backend }) => backend.devices !== null && backend.kind === 'embedded',
    problem: ({ backend }) =>
      `backend.devices must be left out with backend.kind = "embedded" (backend.threads divides its work), got ${JSON.stringify(backend.devices)}: leave it out, or set backend.kind = "torch"`,
  },
  {
    key: 'backend.devices',
    wrong: ({ backend }) => backend.devices !== null && backend.device !== 'auto',
    problem: ({ backend }) =>
      `Only one of backend.device and backend.devices may be set, got "${backend.device}" and ${JSON.stringify(backend.devices)}; leave one of the two out`,
  },
  {
    key: 'backend.devices',
    wrong: ({ backend: { devices } }) =>
      devices !== null &&
      devices.some((device, i) => (device === 'cpu') !== (devices[0] === 'cpu') || (device !== 'cpu' && devices.indexOf(device) < i)),
    problem: ({ backend }) =>
      `backend.devices must be all "cpu", or all GPUs and each once (NCCL refuses two processes on one), got ${JSON.stringify(backend.devices)}`,
  },
  {
    key: 'backend.sharding',
    wrong: ({ backend }) => backend.sharding === 'full' && backend.devices === null,
    problem: () => 'backend.devices must be set with backend.sharding = "full", which divides the base between them; got none',
  },
  {
    key: 'lora.rank',
    wrong: ({ policy, backend, lora }) => (policy.embedded !== null || backend.kind === 'embedded') && lora.rank > MAX_ADAPTER_RANK,
    problem: ({ lora }) => `lora.rank must be 1 to ${MAX_ADAPTER_RANK} with the embedded engine, got ${lora.rank}`,
  },
  {
    key: 'backend.threads',
    wrong: ({ backend }) => backend.kind === 'embedded' && backend.threads !== null && backend.threads > MAX_EMBEDDED_THREADS,
    problem: ({ backend }) => `backend.threads must be 1 to ${MAX_EMBEDDED_THREADS} with backend.kind = "embedded", got ${backend.threads}`,
  },
  {
    key: 'backend.threads',
    wrong: ({ policy, backend }) =>
      backend.kind === 'embedded' &&
      [backend.threads, policy.embedded?.threads ?? null].every((n) => n !== null) &&
      backend.threads !== policy.embedded?.threads,
    problem: ({ policy, backend }) =>
      `backend.threads must equal policy.embedded.threads (${policy.embedded?.threads}), because one engine samples and trains; got ${backend.threads}; leave one of the two out`,
  },
  ...TINKER_RULES,
  ...ALGORITHM_RULES,
  ...IN_FLIGHT_RULES,
  ...TEACHER_RULES,
  ...LOGGING_RULES,
];

/** Throws a one-line ConfigError for the first broken rule. */
export function checkConfig(config: TrainingConfigWire, origin: (key: string) => string): void {
  for (const { key, wrong, problem } of RULES) {
    if (!wrong(config)) continue;
    const source = origin(key);
    throw new ConfigError(`${problem(config)}${source === 'default' ? '' : ` (${source})`}`);
  }
  const { environment, policy } = config;
  for (const [path, table] of [
    ['environment.args', environment.args],
    ['environment.eval_args', environment.eval_args],
    ['policy.launch.env', policy.launch?.env ?? {}],
    ['algorithm.advantage.args', config.algorithm.advantage.args],
    ['algorithm.loss.args', config.algorithm.loss.args],
    ['losses', config.losses],
    ['roles', config.roles],
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
  const isHidden = typeof value === 'string' && (value === HIDDEN || value.includes(`${HIDDEN}@`) || value.includes(`=${HIDDEN}`));
  if (isHidden || (Array.isArray(value) && value.some((item) => hiddenKey(item, path) !== null))) return path;
  if (!isObject(value)) return null;
  return Object.entries(value).reduce<string | null>((found, [key, inner]) => found ?? hiddenKey(inner, `${path}.${key}`), null);
}

function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}
