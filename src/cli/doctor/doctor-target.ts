/** What is to be looked at: a training configuration with the flags of vf-doctor over it, or what can be known without one. */
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { urlCredentials } from '../../transport/credentials.ts';
import { redactUrl } from '../../transport/redact.ts';
import { readTrainingConfig } from '../train/read-training-config.ts';

export interface DoctorFlags {
  readonly config: string | null;
  /** Of the worker, and of a server started with the run unless `vllmPython` says otherwise. */
  readonly python: string | null;
  readonly vllmPython: string | null;
  /** Take the place of the configuration's server. */
  readonly baseUrls: readonly string[];
  /** Environment variable that holds the API key. */
  readonly keyVariable: string | null;
}

export interface DoctorTarget {
  /** Null without a configuration. */
  readonly config: TrainingConfig | null;
  /** Has torch: the worker's. */
  readonly python: string;
  /** Has vLLM; null where no server is started with the run. */
  readonly serverPython: string | null;
  readonly baseUrls: readonly string[];
  readonly apiKey: string | undefined;
  /** The variable that holds it; null for none. */
  readonly keyVariable: string | null;
  readonly loraRank: number;
  readonly maxStaleness: number;
  readonly temperature: number;
  readonly outputDir: string;
  /** Values that no line may hold. */
  readonly secrets: ReadonlySet<string>;
}

/** Throws ConfigError when the configuration cannot be used or the key's variable is not set. */
export async function readTarget(flags: DoctorFlags, variables: NodeJS.ProcessEnv): Promise<DoctorTarget> {
  return flags.config === null ? bareTarget(flags, variables) : configTarget(flags, flags.config, variables);
}

async function configTarget(
  { python, vllmPython, baseUrls, keyVariable }: DoctorFlags,
  path: string,
  variables: NodeJS.ProcessEnv,
): Promise<DoctorTarget> {
  if (!path.endsWith('.toml')) throw new ConfigError(`Expected a training configuration, a file that ends in .toml, got ${path}`);
  const policy = {
    ...(baseUrls.length === 0 ? {} : { base_url: [...baseUrls], launch: null, embedded: null }),
    ...(keyVariable === null ? {} : { api_key_var: keyVariable }),
  };
  const display = { json: false, plain: true, verbose: false };
  const given = {
    kind: 'train',
    action: 'dry-run',
    target: path,
    preset: null,
    layers: [{ source: 'flags', table: { policy } }],
    resume: null,
    display,
  } as const;
  const { config, apiKey, secrets } = await readTrainingConfig(given, { variables });
  const { baseUrl, launch, apiKeyVar } = config.policy;
  return {
    config,
    python: python ?? config.backend.python,
    serverPython: launch === null ? null : (vllmPython ?? python ?? launch.python),
    baseUrls: baseUrl === null ? [] : typeof baseUrl === 'string' ? [baseUrl] : baseUrl,
    apiKey: apiKey ?? undefined,
    keyVariable: apiKeyVar,
    loraRank: config.lora.rank,
    maxStaleness: config.rollouts.maxStaleness,
    temperature: config.rollouts.temperature,
    outputDir: config.outputDir,
    secrets,
  };
}

function bareTarget({ python, vllmPython, baseUrls, keyVariable }: DoctorFlags, variables: NodeJS.ProcessEnv): DoctorTarget {
  const wrong = baseUrls.find((url) => !/^https?:\/\/[^/?#]/i.test(url));
  if (wrong !== undefined)
    throw new ConfigError(`Expected -b to name a URL that begins with http:// or https://, got ${JSON.stringify(redactUrl(wrong))}`);
  const apiKey = keyVariable === null ? undefined : keyOf(keyVariable, variables);
  return {
    config: null,
    python: python ?? 'python3',
    serverPython: vllmPython,
    baseUrls,
    apiKey,
    keyVariable,
    // The defaults of the configuration.
    loraRank: 16,
    maxStaleness: 0,
    temperature: 1,
    outputDir: 'outputs',
    secrets: new Set([...(apiKey === undefined ? [] : [apiKey]), ...baseUrls.flatMap(urlCredentials)]),
  };
}

function keyOf(variable: string, variables: NodeJS.ProcessEnv): string {
  const key = variables[variable];
  if (key !== undefined && key !== '') return key;
  throw new ConfigError(`Expected the API key of the policy server in the environment variable ${variable}, found none; set it or put it in ./.env`);
}
