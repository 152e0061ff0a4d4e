/**
 * Resolves a run's configuration from layers (a preset, a file, flags): defaults from the schema, then each layer over the earlier ones, then every
 * check that needs no disk or network. Pure. Keeps the source of each value, for messages and for the record.
 */
import { settingValue } from '../../core/setting-number.ts';
import { ConfigError } from '../../core/errors.ts';
import {
  allowedText,
  configKeys,
  configTable,
  isFreeTable,
  isNullable,
  type KeySchema,
  acceptsType,
  entryTable,
  tableSchema,
  withDefaults,
} from '../../schemas/config-keys.ts';
import { limitsBeside } from '../../schemas/merge-role-tables.ts';
import { defaultRunName } from '../../schemas/run-name.ts';
import { schemaCheck } from '../../schemas/schema-check.ts';
import { type TrainingConfig, trainingConfigFromWire, trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { redactUrl } from '../../transport/redact.ts';
import { checkConfig } from './check-config.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { unknownKey } from './unknown-key.ts';
import { unsetKey } from './unset-key.ts';

export interface ConfigLayer {
  /** Human-readable: `preset tinker`, `run.toml`, `--steps`. */
  readonly source: string;
  /** Part of a configuration, snake_case. */
  readonly table: Readonly<Record<string, unknown>>;
  /** A dotted key that earlier layers no longer set: `backend.device`. @default none */
  readonly unset?: string;
}

export interface ResolvedConfig {
  /** With a name, by default from environment and model. */
  readonly config: TrainingConfig & { readonly name: string };
  readonly wire: TrainingConfigWire & { readonly name: string };
  /** The source of a key (dotted, snake_case), or `default`. */
  readonly origin: (key: string) => string;
}

export const DEFAULT_ORIGIN = 'default';
/** Prefix of the source of a preset's layer. */
export const PRESET_SOURCE = 'preset ';

const schema: KeySchema = trainingConfigSchema;
const KEYS = configKeys(configTable(schema));

/**
 * Merges tables key by key, `args`, `eval_args` and `env` too; replaces anything else. A layer that names another environment drops the arguments of
 * earlier layers, and one that names a policy server replaces the preset's. A layer's `unset` removes what earlier layers gave a key. For a nullable number, the string `none` means null, which TOML lacks.
 * Throws a one-line ConfigError for an unknown key, an invalid value, or values that do not go together.
 */
export function resolveTrainingConfig(layers: readonly ConfigLayer[]): ResolvedConfig {
  const origins = new Origins();
  const given: Record<string, unknown> = {};
  for (const { source, table, unset } of layers) {
    if (unset !== undefined) {
      unsetKey(given, unset, source);
      origins.forget(unset);
    }
    forgetOtherEnvironment(given, table, origins);
    forgetOtherWarmup(given, table, source);
    forgetServerOfPreset(given, table, origins);
    merge(given, table, { schema, path: '', source, origins });
  }
  const filled = withDefaults(schema, given);
  const check = schemaCheck(trainingConfigSchema);
  if (!check(filled)) throw schemaError(check.errors ?? [], filled, origins.of);
  const wire = {
    ...filled,
    name: filled.name ?? defaultRunName(filled.environment.id, filled.model.path),
    optimizer: withWarmupSteps(filled),
    evaluation: evaluationOf(filled, origins.of('evaluation.every')),
    algorithm: {
      ...filled.algorithm,
      minibatches: minibatchesOf(filled, origins.of('algorithm.minibatches')),
      loss: withSequenceClip(filled.algorithm.loss, origins.of),
    },
  };
  if (filled.optimizer.warmup_ratio !== null) {
    origins.set('optimizer.warmup_steps', origins.of('optimizer.warmup_ratio'));
    origins.forget('optimizer.warmup_ratio');
  }
  checkConfig(wire, origins.of);
  return { config: { ...trainingConfigFromWire(wire), name: wire.name }, wire, origin: origins.of };
}

class Origins {
  readonly #sources = new Map<string, string>();

  set(path: string, source: string): void {
    this.forget(path);
    this.#sources.set(path, source);
  }

  forget(path: string): void {
    for (const key of this.#sources.keys()) if (key === path || key.startsWith(`${path}.`)) this.#sources.delete(key);
  }

  /** Source of a key. For a table, all sources of its keys. */
  readonly of = (path: string): string => {
    const own = this.#sources.get(path);
    if (own !== undefined) return own;
    const inner = [...this.#sources].filter(([key]) => key.startsWith(`${path}.`)).map(([, source]) => source);
    return inner.length === 0 ? DEFAULT_ORIGIN : [...new Set(inner)].join(', ');
  };
}

interface Place {
  readonly schema: KeySchema;
  readonly path: string;
  readonly source: string;
  readonly origins: Origins;
}

function merge(target: Record<string, unknown>, table: Readonly<Record<string, unknown>>, { schema: tableOf, path, source, origins }: Place): void {
  for (const [name, value] of Object.entries(table)) {
    if (value === undefined) continue;
    const inner = path === '' ? name : `${path}.${name}`;
    const properties = tableOf.properties ?? {};
    if (!Object.hasOwn(properties, name)) throw unknownKey(inner, Object.keys(properties), source);
    const property = properties[name]!;
    const innerTable = tableSchema(property);
    const before = isObject(target[name]) ? target[name] : {};
    const entry = entryTable(property);
    if (isObject(value) && innerTable !== null) {
      if (target[name] !== before) origins.set(inner, source);
      target[name] = before;
      merge(before, value, { schema: innerTable, path: inner, source, origins });
    } else if (isObject(value) && entry !== null) {
      target[name] = before;
      mergeEntries(before, value, { schema: entry, path: inner, source, origins });
    } else if (isObject(value) && isFreeTable(property)) {
      target[name] = { ...before, ...value };
      for (const key of Object.keys(value)) origins.set(`${inner}.${key}`, source);
    } else {
      target[name] = value === 'none' && saysNullAsNone(property) ? null : value;
      origins.set(inner, source);
    }
  }
}

/** Tables whose names the user chooses, such as `[roles.judge]`. Their keys are known. The keys that choose the model for a role are replaced together. */
function mergeEntries(target: Record<string, unknown>, tables: Readonly<Record<string, unknown>>, place: Place): void {
  for (const [name, table] of Object.entries(tables)) {
    if (!isObject(table)) {
      target[name] = table;
      place.origins.set(`${place.path}.${name}`, place.source);
      continue;
    }
    const kept = limitsBeside(isObject(target[name]) ? target[name] : {}, table);
    target[name] = kept;
    merge(kept, table, { ...place, path: `${place.path}.${name}` });
  }
}

/** Only for numbers: a string may really be "none". */
export function saysNullAsNone(property: KeySchema): boolean {
  return isNullable(property) && (acceptsType(property, 'number') || acceptsType(property, 'integer'));
}

function forgetOtherEnvironment(given: Readonly<Record<string, unknown>>, { environment: next }: ConfigLayer['table'], origins: Origins): void {
  const { environment: before } = given;
  if (!isObject(before) || !isObject(next) || next['id'] === undefined || before['id'] === undefined || next['id'] === before['id']) return;
  for (const key of ['args', 'eval_args']) {
    delete before[key];
    origins.forget(`environment.${key}`);
  }
}

/** Of warmup_steps and warmup_ratio, the one set last wins. */
function forgetOtherWarmup(
  { optimizer: before }: Readonly<Record<string, unknown>>,
  { optimizer: next }: ConfigLayer['table'],
  source: string,
): void {
  if (!isObject(next)) return;
  const said = ['warmup_steps', 'warmup_ratio'].filter((key) => (next[key] ?? null) !== null);
  if (said.length === 2) throw new ConfigError(`Both optimizer.warmup_steps and optimizer.warmup_ratio are set (${source}); keep one`);
  if (said.length === 1 && isObject(before)) delete before[said[0] === 'warmup_steps' ? 'warmup_ratio' : 'warmup_steps'];
}

const SERVERS = ['base_url', 'launch', 'embedded'] as const;

/** Two servers are an error if the user named both; a preset's server is replaced. */
function forgetServerOfPreset(
  { policy: before }: Readonly<Record<string, unknown>>,
  { policy, backend }: ConfigLayer['table'],
  origins: Origins,
): void {
  if (!isObject(before)) return;
  const next = fieldsOf(policy);
  const named = SERVERS.find((key) => (next[key] ?? null) !== null);
  // A training service samples too.
  if (named === undefined && fieldsOf(backend)['kind'] !== 'tinker') return;
  for (const key of SERVERS) {
    if (key === named || before[key] === undefined || !origins.of(`policy.${key}`).startsWith(PRESET_SOURCE)) continue;
    delete before[key];
    origins.forget(`policy.${key}`);
  }
}

function withWarmupSteps({ optimizer, steps }: TrainingConfigWire): TrainingConfigWire['optimizer'] {
  if (optimizer.warmup_ratio === null) return optimizer;
  return { ...optimizer, warmup_steps: Math.floor(optimizer.warmup_ratio * steps), warmup_ratio: null };
}

/** If nothing is played for training, an evaluation needs a server that the user names; without one, the default is no evaluation. */
function evaluationOf(
  { evaluation, policy, backend, steps, rollouts_file: file }: TrainingConfigWire,
  source: string,
): TrainingConfigWire['evaluation'] {
  const isServed = backend.kind === 'tinker' || SERVERS.some((key) => policy[key] !== null);
  const isPlayed = steps > 0 && file === null;
  return !isPlayed && !isServed && source === DEFAULT_ORIGIN ? { ...evaluation, every: 0 } : evaluation;
}

/** A sequence ratio is a geometric mean, so it hardly ever leaves the bounds of a token's: GSPO has bounds of its own (arXiv 2507.18071). */
const SEQUENCE_CLIP = { clip_low: 3e-4, clip_high: 4e-4 } as const;

function withSequenceClip(loss: TrainingConfigWire['algorithm']['loss'], origin: (key: string) => string): TrainingConfigWire['algorithm']['loss'] {
  if (loss.ratio !== 'sequence') return loss;
  // A preset's clip suits the ratio of the preset.
  const isOfPreset = (key: string) =>
    origin(`algorithm.loss.${key}`).startsWith(PRESET_SOURCE) && !origin('algorithm.loss.ratio').startsWith(PRESET_SOURCE);
  const unset = Object.entries(SEQUENCE_CLIP).filter(([key]) => origin(`algorithm.loss.${key}`) === DEFAULT_ORIGIN || isOfPreset(key));
  return { ...loss, ...Object.fromEntries(unset) };
}

/** A preset's number suits its own batch, so a smaller batch lowers it to the number of groups. A number set by the user is checked instead. */
function minibatchesOf({ algorithm, rollouts }: TrainingConfigWire, source: string): number {
  const isOfPreset = source.startsWith(PRESET_SOURCE);
  return isOfPreset ? Math.min(algorithm.minibatches, rollouts.examples_per_step) : algorithm.minibatches;
}

const NO_MODEL =
  'No model is named; set model.path to a Hugging Face directory, a bundled model such as nano-base, or owner/name on the hub, or use the preset laptop, or laptop-copy for an environment of your own';

interface SchemaFault {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** One line for the schema's faults: reports the deepest, which is the most specific. */
function schemaError(faults: readonly SchemaFault[], values: Readonly<Record<string, unknown>>, origin: (key: string) => string): ConfigError {
  const depth = ({ instancePath }: SchemaFault) => instancePath.split('/').length;
  const fault = faults.toSorted((a, b) => depth(b) - depth(a))[0]!;
  const parts = fault.instancePath.split('/').slice(1);
  if (fault.keyword === 'required') {
    const path = [...parts, String(fault.params['missingProperty'])].join('.');
    const description = KEYS.find((key) => key.path === path)?.description ?? '';
    const text =
      path === 'model.path' ? NO_MODEL : `${path} is not set: ${description.charAt(0).toLowerCase()}${description.slice(1).replace(/\.$/, '')}`;
    return new ConfigError(text);
  }
  // Items of lists and entries of free tables are reported as a whole.
  let [property, value, path]: [KeySchema, unknown, string] = [schema, values, ''];
  for (const part of parts) {
    const next: KeySchema | undefined = (tableSchema(property) ?? {}).properties?.[part] ?? entryTable(property) ?? undefined;
    if (next === undefined) break;
    property = next;
    value = isObject(value) ? value[part] : undefined;
    path = path === '' ? part : `${path}.${part}`;
  }
  const texts = isFreeTable(property) && isObject(value) ? ' of strings' : '';
  const source = origin(path);
  // A flag with a name of its own is what the user wrote; these name the key in their value.
  const named = source.startsWith('--') && source !== '--set' && source !== '--role' ? source : `${path} (${source})`;
  return new ConfigError(`${named} must be ${allowedText(property)}${texts}, got ${valueText(value)}`);
}

/** Does not show tables, which may hold secrets. */
function valueText(value: unknown): string {
  if (isObject(value)) return 'a table';
  const text = redactUrl(settingValue(value));
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
