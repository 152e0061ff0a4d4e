/**
 * Resolves a user's request for a training to its configuration: preset, file, environment variables and settings, and for a resumed run its record. Reads
 * files and variables; makes no connections.
 */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { ConfigError, thrownText } from '../../core/errors.ts';
import type { WireTrainingRun } from '../../schemas/training-records.ts';
import { folderOfName } from '../../schemas/run-name.ts';
import { presetLayer } from '../../trainer/config/preset.ts';
import { type ConfigLayer, type ResolvedConfig, resolveTrainingConfig } from '../../trainer/config/resolve-config.ts';
import { ALLOW_FLAG, assertResumable, type ConfigDifference, describeDifferences } from '../../trainer/config/resume-config.ts';
import { newestTrainingRun, readTrainingRun, trainingPaths } from '../../trainer/records/training-directory.ts';
import { modelWorld } from '../environment/model-world.ts';
import { loadEnvironmentFile, settingRemedy } from '../environment/environment-file.ts';
import { variableName } from '../policy/endpoints.ts';
import { assertWholeModel } from '../policy/assert-whole-model.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { secretsOf } from '../policy/secrets.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { recordedLayer, settingsBefore } from './recorded-layer.ts';
import { withPaths } from './absolute-paths.ts';
import { environmentCredit } from './environment-credit.ts';
import { withArgumentSettings } from './argument-settings.ts';
import { presetNamed } from '../environment/presets.ts';
import { refuseIncompleteProgram } from './assert-trainable.ts';
import { placedEnvironment } from './placed-environment.ts';
import { trainingDocument } from './read-ablations.ts';
import { checkRollouts, stepsOfRollouts, withSupervisedSteps } from './count-steps.ts';
import { isObject } from '../../schemas/is-object.ts';
import { shellCommand } from '../../reports/text/own-command.ts';

type Table = ConfigLayer['table'];

/** A user's request for a training, before presets, files and defaults are applied. */
export interface TrainingRequest {
  /** An environment id, a path, or a `.toml` file; null to take it from a resumed run or a preset. */
  readonly target: string | null;
  readonly preset: string | null;
  /** The folder of the user's own environments. @default environments, in the working directory */
  readonly environmentsDir?: string;
  /** The settings of one run of the file's `[[ablation]]`, over those of the file. @default none */
  readonly ablationRun?: ConfigLayer;
  /** Settings, later ones overriding earlier ones. The source of each is named in messages, such as the flag that it came from. */
  readonly layers: readonly ConfigLayer[];
  /** Null starts a new run; a null directory means the newest matching run. */
  readonly resume: { readonly directory: string | null; readonly allowChanges: boolean; readonly allow?: string } | null;
}

export interface TrainingSetup extends ResolvedConfig {
  /** Absolute folder of the run to resume; null for a new run. */
  readonly resumeDirectory: string | null;
  /** Differences from the resumed run's record, all of them allowed. */
  readonly changes: readonly ConfigDifference[];
  /** Also other contents of the files that the configuration names. */
  readonly allowsChanges: boolean;
  /** What the caller must do to allow them, such as `add --allow-changes`. */
  readonly allow: string;
  /** Sent to the server at policy.base_url; null sends none. */
  readonly apiKey: string | null;
  /** Values that must not be printed or written. */
  readonly secrets: ReadonlySet<string>;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
}

export interface ResolveTrainingOptions {
  /** Environment variables; those of `.env` are added. */
  readonly variables: NodeJS.ProcessEnv;
  /** @default ./.env */
  readonly environmentFile?: string;
  /** If the configuration is incomplete because the environment asks models of its own, the error then says so, for which the environment is loaded. @default not looked up */
  readonly signal?: AbortSignal;
  /** Absolute path of supervised rows that do not exist yet: then `sft.steps` stays open, unless it is set. @default none */
  readonly laterRows?: string;
}

/** Parent of the run folders under an output_dir. */
export function trainingRunsFolder(outputDir: string): string {
  return resolve(outputDir, 'train');
}

/** Throws a one-line ConfigError if a file cannot be read, a key is missing, or a resumed run would change a fixed setting. */
export async function resolveTraining(wanted: TrainingRequest, options: ResolveTrainingOptions): Promise<TrainingSetup> {
  const { target, ...rest } = wanted;
  const request = { ...rest, target: target === null || target.endsWith('.toml') ? target : placedEnvironment(target, rest) };
  try {
    return await readSetup(request, options);
  } catch (error) {
    if (options.signal !== undefined) await refuseIncompleteProgram(request, { env: options.variables, signal: options.signal });
    throw error;
  }
}

async function readSetup(
  { layers, ...rest }: TrainingRequest,
  { variables, environmentFile = '.env', laterRows }: ResolveTrainingOptions,
): Promise<TrainingSetup> {
  loadEnvironmentFile(environmentFile, variables);
  const given = { ...rest, layers: layers.map(withPaths) };
  const asked = (await askedLayers(given)).map(withPaths);
  if (given.resume === null) return setup(await resolveFresh(await freshLayers(asked, given, variables), variables, laterRows), { variables });
  const { directory: named } = given.resume;
  const { directory, other } = named === null ? await newestMatch(asked, given, variables) : { directory: resolve(named), other: null };
  if (directory === null) {
    const fresh = await resolveFresh(await freshLayers(asked, given, variables), variables);
    const where = join(fresh.wire.output_dir, 'train');
    const notice = `found no run under ${where} that this configuration can resume${inBrackets(other)}; starting a new one`;
    return setup(fresh, { variables, notices: [notice] });
  }
  const run = await readTrainingRun(directory);
  const recorded = recordedLayer(directory);
  const again = [...asked.map(withoutRatio), ...layersFor(recorded, given.layers)];
  const resumed = resolveTrainingConfig([recorded, ...(await withArgumentSettings(again, { env: variables, completed: withPaths }))]);
  const { allowChanges: allowOptimizer, allow = ALLOW_FLAG } = given.resume;
  // Hidden secrets were given again, otherwise the line above has thrown.
  const { wire: before, edited } = settingsBefore(directory, run, resumed.wire);
  const options = { allowOptimizer, allow, edited };
  assertResumable(before, resumed.wire, options);
  const changes = describeDifferences(before, resumed.wire, options);
  const notices = run.settings === undefined ? [UNKNOWN_EDITS] : [];
  return setup(resumed, { variables, resumeDirectory: directory, changes, allowsChanges: allowOptimizer, allow, notices });
}

const UNKNOWN_EDITS = 'an earlier version of vf-search began this run, so an edit of its config.toml would go unnoticed';

/** Layers of the preset, file and environment that the request names. */
async function askedLayers({ target, preset, ablationRun, ...searched }: TrainingRequest): Promise<ConfigLayer[]> {
  if (target === null) return preset === null ? [] : [presetLayer(presetNamed(preset, null))];
  if (!target.endsWith('.toml')) {
    if (existsSync(trainingPaths(target).run))
      throw new ConfigError(`${target} is the folder of a run; resume it: ${shellCommand(['vf-train', '-R', target])}, or in code the option resume`);
    const layers = preset === null ? [] : [presetLayer(presetNamed(preset, target))];
    return [...layers, { source: 'command line', table: { environment: { id: target } } }];
  }
  const { preset: ofFile, ablation: _, ...table } = trainingDocument(target, ablationRun !== undefined);
  const { preset: ofRun, ...own } = ablationRun?.table ?? {};
  const name = preset ?? presetText(ofRun, ablationRun?.source ?? target) ?? presetText(ofFile, target);
  const layers = [{ source: target, table: withPlace(table, searched) }];
  if (ablationRun !== undefined) layers.push({ source: ablationRun.source, table: withPlace(own, searched) });
  const id = lastValue(layers, 'environment', 'id');
  return [...(name === undefined ? [] : [presetLayer(presetNamed(name, typeof id === 'string' ? id : null))]), ...layers];
}

function presetText(preset: unknown, source: string): string | undefined {
  if (preset === undefined || typeof preset === 'string') return preset;
  throw new ConfigError(`preset in ${source} must be a name, got ${JSON.stringify(preset)}`);
}

/** With the environment's path in place of its id, if it is one of the user's own. */
function withPlace(table: Table, searched: Parameters<typeof placedEnvironment>[1]): Table {
  const { environment } = table;
  if (!isObject(environment) || typeof environment['id'] !== 'string') return table;
  return { ...table, environment: { ...environment, id: placedEnvironment(environment['id'], searched) } };
}

/** Resolves a new run. Without --steps, one on rollouts of a file takes every full step that the file holds. */
async function resolveFresh(layers: readonly ConfigLayer[], variables: NodeJS.ProcessEnv, laterRows?: string): Promise<ResolvedConfig> {
  const path = layers.map(({ table }) => table['rollouts_file']).findLast((value) => value !== undefined);
  const isCounted = typeof path === 'string' && path !== '-' && layers.every(({ table }) => table['steps'] === undefined);
  // A wrong file is refused before a run begins.
  if (!isCounted && typeof path === 'string' && path !== '-') await checkRollouts(path);
  if (!isCounted) return withSupervisedSteps(resolveTrainingConfig(layers), laterRows);
  // First with more steps than any file holds, so that no rule refuses settings that the real number allows.
  const { config } = resolveTrainingConfig([...layers, { source: path, table: { steps: MOST_STEPS } }]);
  const { contextLength } = modelFacts(modelFolder(config.model.path, variables));
  const steps = await stepsOfRollouts(path, config.rollouts, contextLength ?? Infinity);
  return withSupervisedSteps(resolveTrainingConfig([...layers, { source: path, table: { steps } }]));
}

const MOST_STEPS = 1_000_000;

/** Adds the model's default world, the server named by environment variables, the flags, and the settings of the environment's arguments. */
async function freshLayers(
  asked: readonly ConfigLayer[],
  { layers }: TrainingRequest,
  variables: NodeJS.ProcessEnv,
): Promise<readonly ConfigLayer[]> {
  const all = [...asked, ...layers];
  const lowest = [...(await environmentCredit(all)), ...worldLayer(all)];
  return withArgumentSettings([...lowest, ...asked, ...variableLayers(all, variables), ...layers], { env: variables, completed: withPaths });
}

/** Lowest layer: the world that the model knows, unless another layer sets one. */
function worldLayer(layers: readonly ConfigLayer[]): ConfigLayer[] {
  const [id, path] = [lastValue(layers, 'environment', 'id'), lastValue(layers, 'model', 'path')];
  if (typeof id !== 'string' || typeof path !== 'string') return [];
  const tables = layers.flatMap(({ table: { environment } }) => (isObject(environment) ? [environment['args'], environment['eval_args']] : []));
  const world = modelWorld(path, { environmentId: id, args: Object.assign({}, ...tables.filter(isObject)) as Record<string, unknown> });
  return world === null || Object.keys(world.args).length === 0 ? [] : [{ source: basename(path), table: { environment: { id, args: world.args } } }];
}

/** As in vf-eval: VF_BASE_URL with VF_MODEL and VF_API_KEY, unless another layer names a server. */
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
    return isObject(inner) && inner[key] !== undefined ? inner[key] : value;
  }, undefined);
}

interface Match {
  readonly directory: string | null;
  /** The reason why the newest run of the same name does not match; null if there is none, or if a run matches. */
  readonly other: string | null;
}

/** The newest run that the requested configuration can resume. */
async function newestMatch(asked: readonly ConfigLayer[], given: TrainingRequest, variables: NodeJS.ProcessEnv): Promise<Match> {
  const outputDir = [...asked, ...given.layers].map(({ table }) => table['output_dir']).findLast((value) => typeof value === 'string') ?? 'outputs';
  const folder = trainingRunsFolder(outputDir);
  // `-R` alone: the newest run of all.
  const wanted = asked.length === 0 ? null : (await resolveFresh(await freshLayers(asked, given, variables), variables)).wire;
  const options = { allowOptimizer: given.resume?.allowChanges ?? false };
  // A run may have been named since; a name that the request gives chooses among runs that are otherwise alike.
  const isNamed = [...asked, ...given.layers].some(({ table }) => typeof table['name'] === 'string');
  const hasRatio =
    (lastValue(asked, 'optimizer', 'warmup_ratio') ?? null) !== null && lastValue(given.layers, 'optimizer', 'warmup_ratio') === undefined;
  let other: { readonly startedAt: string; readonly text: string } | null = null;
  const damaged = (directory: string, error: unknown) => {
    const name = basename(directory);
    if (wanted === null || name.startsWith(`${folderOfName(wanted.name)}--`)) other ??= { startedAt: '', text: `${name}: ${thrownText(error)}` };
  };
  const matches = (run: WireTrainingRun, directory: string) => {
    const { started_at: startedAt } = run;
    if (wanted === null) return true;
    try {
      const { wire: recorded } = settingsBefore(directory, run, wanted);
      const request = hasRatio ? { ...wanted, optimizer: { ...wanted.optimizer, warmup_steps: recorded.optimizer.warmup_steps } } : wanted;
      const fixed = describeDifferences(recorded, request, options).find(({ key, changeable }) => !changeable || (key === 'name' && isNamed));
      const isAlike = recorded.name === wanted.name || fixed?.key === 'name';
      if (fixed !== undefined && isAlike && (other === null || startedAt > other.startedAt))
        other = { startedAt, text: `${basename(directory)} has another ${fixed.key}` };
      return fixed === undefined;
    } catch (error) {
      // A run of another version, or a damaged one: it cannot be resumed.
      damaged(directory, error);
      return false;
    }
  };
  const found = await newestTrainingRun(folder, matches, damaged);
  // The compiler does not see what the callback assigned.
  const { text = null } = (other as { readonly text: string } | null) ?? {};
  if (found === null && wanted === null)
    throw new ConfigError(`There is no run to resume under ${folder}${inBrackets(text)}; name one elsewhere with -R DIR`);
  return { directory: found, other: text };
}

const inBrackets = (text: string | null) => (text === null ? '' : ` (${text})`);

/** The run recorded its warm-up as a number of steps. A share in the file would give another number if there are more steps. */
function withoutRatio({ source, table }: ConfigLayer): ConfigLayer {
  const { optimizer } = table;
  if (!isObject(optimizer) || !('warmup_ratio' in optimizer)) return { source, table };
  const { warmup_ratio: _, ...rest } = optimizer;
  return { source, table: { ...table, optimizer: rest } };
}

/** In a run of only supervised steps, `--steps` (`steps` of the library) sets these, with or without `--sft`. */
function layersFor({ table: { steps } }: ConfigLayer, layers: readonly ConfigLayer[]): readonly ConfigLayer[] {
  if (steps !== 0) return layers;
  return layers.map((layer) =>
    'steps' in layer.table && ['--steps', 'steps'].includes(layer.source) ? { ...layer, table: { sft: { steps: layer.table['steps'] } } } : layer,
  );
}

type Extras = Partial<Pick<TrainingSetup, 'resumeDirectory' | 'changes' | 'allowsChanges' | 'allow' | 'notices'>> & {
  readonly variables: NodeJS.ProcessEnv;
};

function setup(
  resolved: ResolvedConfig,
  { variables, resumeDirectory = null, changes = [], allowsChanges = false, allow = ALLOW_FLAG, notices = [] }: Extras,
): TrainingSetup {
  const { policy, environment, model: base } = resolved.wire;
  assertWholeModel(base.path, variables);
  const apiKey = policy.api_key_var === null ? null : apiKeyFrom(policy.api_key_var, resolved.origin('policy.api_key_var'), variables);
  const named = { args: environment.args, eval_args: environment.eval_args, env: policy.launch?.env ?? {} };
  const { model, api_key_var: keyVariable } = policy;
  const server = { kind: 'endpoint', model, baseUrls: [policy.base_url ?? []].flat(), apiKey, keyVariable, headers: {} } as const;
  const secrets = secretsOf({ servers: [server], settings: [named] });
  return { ...resolved, resumeDirectory, changes, allowsChanges, allow, apiKey, secrets, notices };
}

function apiKeyFrom(variable: string, source: string, variables: NodeJS.ProcessEnv): string {
  const key = variables[variableName(variable, 'policy.api_key_var')];
  if (key !== undefined && key !== '') return key;
  throw new ConfigError(`The environment variable ${variable} (policy.api_key_var, ${source}) holds no API key; ${settingRemedy(variable)}`);
}
