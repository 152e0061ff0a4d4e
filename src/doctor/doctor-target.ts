/** The target of the checks: a training configuration with vf-doctor's flags applied, or only the flags if there is none. */
import { settingRemedy } from '../sessions/environment/environment-file.ts';
import { ConfigError } from '../core/errors.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { urlCredentials } from '../transport/credentials.ts';
import { redactUrl } from '../transport/redact.ts';
import { resolveTraining, type TrainingSetup } from '../sessions/training/resolve-training.ts';

export interface DoctorFlags {
  /** A TOML file; with a preset also an environment. */
  readonly config: string | null;
  readonly preset: string | null;
  /** True as for vf-train: the run would start its own vLLM. */
  readonly launches: boolean;
  /** Python of the worker, and of a server started with the run unless `vllmPython` is set. */
  readonly python: string | null;
  readonly vllmPython: string | null;
  /** They replace the configuration's server. */
  readonly baseUrls: readonly string[];
  /** Environment variable that holds the API key. */
  readonly keyVariable: string | null;
}

export interface DoctorTarget {
  /** Null without a configuration. */
  readonly config: TrainingConfig | null;
  /** Python for the gradient worker; must have torch. */
  readonly python: string;
  /** True if a configuration, a server or a Python was named: only training with PyTorch needs torch. */
  readonly needsTorch: boolean;
  /** Python with vLLM; null if the run starts no server. */
  readonly serverPython: string | null;
  readonly baseUrls: readonly string[];
  readonly apiKey: string | undefined;
  /** Environment variable that holds the key; null for none. */
  readonly keyVariable: string | null;
  readonly loraRank: number;
  readonly maxStaleness: number;
  readonly temperature: number;
  readonly outputDir: string;
  /** Values that must not be printed. */
  readonly secrets: ReadonlySet<string>;
}

/** Throws ConfigError if the configuration is invalid or the key's variable is not set. */
export async function readTarget(flags: DoctorFlags, variables: NodeJS.ProcessEnv): Promise<DoctorTarget> {
  if (flags.config === null && flags.preset === null) {
    if (flags.launches) throw new ConfigError('--launch is about a training run; name its configuration or --preset, or leave --launch out');
    return bareTarget(flags, variables);
  }
  return configTarget(flags, variables);
}

async function configTarget(
  { config: target, preset, launches, python, vllmPython, baseUrls, keyVariable }: DoctorFlags,
  variables: NodeJS.ProcessEnv,
): Promise<DoctorTarget> {
  if (target !== null && preset === null && !target.endsWith('.toml'))
    throw new ConfigError(`The training configuration must be a .toml file, got ${target}. For an environment, add --preset NAME.`);
  if (launches && baseUrls.length > 0) throw new ConfigError('-b and --launch name two policy servers. Leave one out.');
  const policy = {
    ...(baseUrls.length === 0 ? {} : { base_url: [...baseUrls], launch: null, embedded: null }),
    ...(launches ? { base_url: null, launch: {}, embedded: null } : {}),
    ...(keyVariable === null ? {} : { api_key_var: keyVariable }),
  };
  const request = { target, preset, layers: [{ source: 'flags', table: { policy } }], resume: null };
  return runTarget(await resolveTraining(request, { variables }), { python, vllmPython });
}

/** The target of a run that is about to start. */
export function runTarget(
  { config, apiKey, secrets }: Pick<TrainingSetup, 'config' | 'apiKey' | 'secrets'>,
  { python, vllmPython }: Pick<DoctorFlags, 'python' | 'vllmPython'> = { python: null, vllmPython: null },
): DoctorTarget {
  const { baseUrl, launch, apiKeyVar } = config.policy;
  return {
    config,
    python: python ?? config.backend.python,
    needsTorch: true,
    serverPython: launch === null ? null : (vllmPython ?? python ?? launch.python),
    baseUrls: [baseUrl ?? []].flat(),
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
  if (wrong !== undefined) throw new ConfigError(`-b must be a URL that begins with http:// or https://, got ${JSON.stringify(redactUrl(wrong))}`);
  const apiKey = keyVariable === null ? undefined : keyOf(keyVariable, variables);
  return {
    config: null,
    python: python ?? 'python3',
    needsTorch: python !== null || vllmPython !== null || baseUrls.length > 0,
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
  throw new ConfigError(`The environment variable ${variable} holds no API key for the policy server; ${settingRemedy(variable)}`);
}
