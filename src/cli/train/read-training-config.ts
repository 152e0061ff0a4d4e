/**
 * From the command line to the configuration of a run: preset, file, environment variables, flags, and for a resumed run what was recorded. Reads
 * files and variables, contacts nothing.
 */
import { statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { ConfigError } from '../../core/errors.ts';
import { readRegularFileSync } from '../../files/regular-file.ts';
import { isPlainObject } from '../../schemas/config-keys.ts';
import { presetLayer, presetNamed } from '../../trainer/presets.ts';
import { type ConfigLayer, type ResolvedConfig, resolveTrainingConfig } from '../../trainer/resolve-config.ts';
import { assertResumable, type ConfigDifference, describeDifferences } from '../../trainer/resume-config.ts';
import { newestTrainingRun, readTrainingRun, trainingPaths } from '../../trainer/training-directory.ts';
import { modelPath } from '../bundled-model.ts';
import { modelWorld } from '../model-world.ts';
import { loadEnvironmentFile } from '../environment-file.ts';
import { variableName } from '../eval/endpoints.ts';
import { secretsOf } from '../eval/secrets.ts';
import { readToml } from '../eval/toml-file.ts';
import type { TrainArguments } from './arguments.ts';

export interface TrainingSetup extends ResolvedConfig {
  /** The run to go on with, absolute; null for a new one. */
  readonly resumeDirectory: string | null;
  /** What differs from the record of the resumed run, all of it allowed. */
  readonly changes: readonly ConfigDifference[];
  /** For the server at policy.base_url; null sends none. */
  readonly apiKey: string | null;
  /** Values that no line and no file may hold. */
  readonly secrets: ReadonlySet<string>;
  /** Lines that the user should read before the run. */
  readonly notices: readonly string[];
}

export interface ReadTrainingConfigOptions {
  /** Environment variables; those of `.env` are added to it. @default those of this process */
  readonly variables?: NodeJS.ProcessEnv;
  /** @default ./.env */
  readonly environmentFile?: string;
}

/** Where the runs under an output_dir lie: a folder each. */
export function trainingRunsFolder(outputDir: string): string {
  return resolve(outputDir, 'train');
}

/** Throws ConfigError, one line, when a file cannot be read, a key is missing, or a resumed run would change what it may not. */
export async function readTrainingConfig(
  { layers, ...rest }: TrainArguments,
  { variables = process.env, environmentFile = '.env' }: ReadTrainingConfigOptions = {},
): Promise<TrainingSetup> {
  loadEnvironmentFile(environmentFile, variables);
  const given = { ...rest, layers: layers.map(withModelPath) };
  const asked = (await askedLayers(given)).map(withModelPath);
  if (given.resume === null) return setup(resolveTrainingConfig(freshLayers(asked, given, variables)), { variables });
  const directory = given.resume.directory === null ? await newestMatch(asked, given, variables) : resolve(given.resume.directory);
  if (directory === null) {
    const fresh = resolveTrainingConfig(freshLayers(asked, given, variables));
    const where = join(fresh.wire.output_dir, 'train');
    return setup(fresh, { variables, notices: [`no run under ${where} that this configuration could continue: a new one starts`] });
  }
  await readTrainingRun(directory);
  const recorded = recordedLayer(directory);
  const resumed = resolveTrainingConfig([recorded, ...asked, ...given.layers]);
  const options = { allowOptimizer: given.resume.allowChanges };
  // Hidden secrets were given again, or the line above threw.
  const before = resolveTrainingConfig([withSecretsOf(recorded, resumed.wire)]).wire;
  assertResumable(before, resumed.wire, options);
  return setup(resumed, { variables, resumeDirectory: directory, changes: describeDifferences(before, resumed.wire, options) });
}

/** Preset, file and environment, as the command line names them. */
async function askedLayers({ target, preset }: TrainArguments): Promise<ConfigLayer[]> {
  if (target === null) return preset === null ? [] : [presetLayer(presetNamed(preset))];
  if (!target.endsWith('.toml')) {
    if (isRunFolder(target)) throw new ConfigError(`Expected an environment or a TOML file, but ${target} is a run: vf-train -R ${target}`);
    const layers = preset === null ? [] : [presetLayer(presetNamed(preset))];
    return [...layers, { source: 'command line', table: { environment: { id: target } } }];
  }
  const { preset: ofFile, ...table } = await readToml(target);
  if (ofFile !== undefined && typeof ofFile !== 'string')
    throw new ConfigError(`Expected preset in ${target} to be a name, got ${JSON.stringify(ofFile)}`);
  const name = preset ?? ofFile;
  return [...(name === undefined ? [] : [presetLayer(presetNamed(name))]), { source: target, table }];
}

/** A bundled model by its directory: everything that loads it then needs to know of no names. */
function withModelPath(layer: ConfigLayer): ConfigLayer {
  const { model } = layer.table;
  const path = isPlainObject(model) ? model['path'] : undefined;
  return typeof path === 'string' ? { ...layer, table: { ...layer.table, model: { ...(model as object), path: modelPath(path) } } } : layer;
}

/** Around what was asked for: the server that the environment variables name, and the flags. */
function freshLayers(asked: readonly ConfigLayer[], { layers }: TrainArguments, variables: NodeJS.ProcessEnv): ConfigLayer[] {
  const all = [...asked, ...layers];
  return [...worldLayer(all), ...asked, ...variableLayers(all, variables), ...layers];
}

/** Below everything else: the world that the model knows, where nobody names another. */
function worldLayer(layers: readonly ConfigLayer[]): ConfigLayer[] {
  const [id, path] = [lastValue(layers, 'environment', 'id'), lastValue(layers, 'model', 'path')];
  if (typeof id !== 'string' || typeof path !== 'string') return [];
  const tables = layers.flatMap(({ table: { environment } }) => (isPlainObject(environment) ? [environment['args'], environment['eval_args']] : []));
  const world = modelWorld(path, { environmentId: id, args: Object.assign({}, ...tables.filter(isPlainObject)) as Record<string, unknown> });
  return world === null ? [] : [{ source: basename(path), table: { environment: { id, args: world.args } } }];
}

/** As in vf-eval: VF_BASE_URL with VF_MODEL and VF_API_KEY, where nothing else names a server. */
function variableLayers(layers: readonly ConfigLayer[], variables: NodeJS.ProcessEnv): ConfigLayer[] {
  const isNamed = ['base_url', 'launch', 'embedded'].some((key) => (lastValue(layers, 'policy', key) ?? null) !== null);
  const { VF_BASE_URL: baseUrl, VF_MODEL: model, VF_API_KEY: key } = variables;
  if (isNamed || !baseUrl) return [];
  const optional = { ...(model ? { model } : {}), ...(key ? { api_key_var: 'VF_API_KEY' } : {}) };
  return [{ source: 'VF_BASE_URL', table: { policy: { base_url: baseUrl, ...optional } } }];
}

function lastValue(layers: readonly ConfigLayer[], table: string, key: string): unknown {
  return layers.reduce<unknown>((value, layer) => {
    const inner = layer.table[table];
    return isPlainObject(inner) && inner[key] !== undefined ? inner[key] : value;
  }, undefined);
}

/** The newest run that what was asked for could continue. */
async function newestMatch(asked: readonly ConfigLayer[], given: TrainArguments, variables: NodeJS.ProcessEnv): Promise<string | null> {
  const outputDir = [...asked, ...given.layers].map(({ table }) => table['output_dir']).findLast((value) => typeof value === 'string') ?? 'outputs';
  const folder = trainingRunsFolder(outputDir);
  // `-R` alone: the newest run of all.
  const wanted = asked.length === 0 ? null : resolveTrainingConfig(freshLayers(asked, given, variables)).wire;
  const options = { allowOptimizer: given.resume?.allowChanges ?? false };
  const found = await newestTrainingRun(folder, (_run, directory) => {
    if (wanted === null) return true;
    try {
      const recorded = resolveTrainingConfig([withSecretsOf(recordedLayer(directory), wanted)]).wire;
      return describeDifferences(recorded, wanted, options).every(({ changeable }) => changeable);
    } catch {
      // A run of another version, or one that was spoiled: not one to continue.
      return false;
    }
  });
  if (found === null && wanted === null) throw new ConfigError(`Expected a run to continue under ${folder}, found none; -R DIR names one elsewhere`);
  return found;
}

function isRunFolder(path: string): boolean {
  return statSync(trainingPaths(path).run, { throwIfNoEntry: false }) !== undefined;
}

function recordedLayer(directory: string): ConfigLayer {
  const path = trainingPaths(directory).config;
  try {
    return { source: 'config.toml of the run', table: parseToml(readRegularFileSync(path)) };
  } catch (cause) {
    throw new ConfigError(`Expected the configuration of the run at ${path}: ${(cause as Error).message.split('\n')[0]}`, { cause });
  }
}

/** The recorded layer with the secrets that it hides taken from a configuration that has them: they are no difference. */
function withSecretsOf({ source, table }: ConfigLayer, wire: ResolvedConfig['wire']): ConfigLayer {
  return { source, table: revealed(table, wire) as Record<string, unknown> };
}

function revealed(recorded: unknown, known: unknown): unknown {
  if (isHidden(recorded)) return known ?? recorded;
  if (!isPlainObject(recorded)) return recorded;
  return Object.fromEntries(Object.entries(recorded).map(([key, value]) => [key, revealed(value, isPlainObject(known) ? known[key] : undefined)]));
}

function isHidden(recorded: unknown): boolean {
  return Array.isArray(recorded) ? recorded.some(isHidden) : typeof recorded === 'string' && recorded.includes('***');
}

type Extras = Partial<Pick<TrainingSetup, 'resumeDirectory' | 'changes' | 'notices'>> & { readonly variables: NodeJS.ProcessEnv };

function setup(resolved: ResolvedConfig, { variables, resumeDirectory = null, changes = [], notices = [] }: Extras): TrainingSetup {
  const { policy, environment } = resolved.wire;
  const apiKey = policy.api_key_var === null ? null : apiKeyFrom(policy.api_key_var, resolved.origin('policy.api_key_var'), variables);
  const named = { args: environment.args, eval_args: environment.eval_args, env: policy.launch?.env ?? {} };
  const server = {
    kind: 'endpoint',
    model: policy.model,
    baseUrls: [policy.base_url ?? []].flat(),
    apiKey,
    keyVariable: policy.api_key_var,
  } as const;
  const secrets = secretsOf({ ...server, headers: {}, clientType: 'tokens', alias: null, chosenBy: 'policy.base_url' }, named);
  return { ...resolved, resumeDirectory, changes, apiKey, secrets, notices };
}

function apiKeyFrom(variable: string, source: string, variables: NodeJS.ProcessEnv): string {
  const key = variables[variableName(variable, 'policy.api_key_var')];
  if (key !== undefined && key !== '') return key;
  throw new ConfigError(
    `Expected an API key in the environment variable ${variable} (policy.api_key_var, ${source}), got none: export it or put it into .env`,
  );
}
