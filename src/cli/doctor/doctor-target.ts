/** What is to be looked at: a training configuration with the flags of vf-doctor over it, or what can be known without one. */
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { resolveTrainingConfig, type ConfigLayer } from '../../trainer/resolve-config.ts';
import { readToml } from '../eval/toml-file.ts';

export interface DoctorFlags {
  readonly config: string | null;
  readonly python: string | null;
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
  /** How a server that fits would be started: this many versions besides the next one. */
  readonly maxStaleness: number;
  readonly temperature: number;
  readonly outputDir: string;
}

/** Throws ConfigError when the configuration cannot be used or the key's variable is not set. */
export async function readTarget(flags: DoctorFlags, variables: Readonly<Record<string, string | undefined>>): Promise<DoctorTarget> {
  const config = flags.config === null ? null : await readConfig(flags.config, flags);
  const given = config?.policy.baseUrl ?? [];
  const variable = flags.keyVariable ?? config?.policy.apiKeyVar ?? null;
  return {
    config,
    python: flags.python ?? config?.backend.python ?? 'python3',
    serverPython: (config?.policy.launch ?? null) === null ? null : (flags.python ?? config!.policy.launch!.python),
    baseUrls: typeof given === 'string' ? [given] : given.length > 0 ? given : flags.baseUrls,
    apiKey: variable === null ? undefined : keyOf(variable, variables),
    keyVariable: variable,
    // The defaults of the configuration, for a server that is looked at without one.
    loraRank: config?.lora.rank ?? 16,
    maxStaleness: config?.rollouts.maxStaleness ?? 0,
    temperature: config?.rollouts.temperature ?? 1,
    outputDir: config?.outputDir ?? 'outputs',
  };
}

async function readConfig(path: string, { baseUrls }: DoctorFlags): Promise<TrainingConfig> {
  const layers: ConfigLayer[] = [{ source: path, table: withoutLaunch(await readToml(path), baseUrls) }];
  if (baseUrls.length > 0) layers.push({ source: '-b', table: { policy: { base_url: [...baseUrls] } } });
  return resolveTrainingConfig(layers).config;
}

/** A server that runs takes the place of one that would be started. */
function withoutLaunch(table: Readonly<Record<string, unknown>>, baseUrls: readonly string[]): Readonly<Record<string, unknown>> {
  const { policy } = table;
  if (baseUrls.length === 0 || typeof policy !== 'object' || policy === null) return table;
  return { ...table, policy: Object.fromEntries(Object.entries(policy).filter(([key]) => key !== 'launch')) };
}

function keyOf(variable: string, variables: Readonly<Record<string, string | undefined>>): string {
  const key = variables[variable];
  if (key !== undefined && key !== '') return key;
  throw new ConfigError(`Expected the API key of the policy server in the environment variable ${variable}, found none; set it or put it in ./.env`);
}
