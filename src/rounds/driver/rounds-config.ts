/** Reads `rounds.toml`. Every key must be known; a message names file, table, key and the allowed values. */
import { createHash } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { isObject } from '../../schemas/is-object.ts';
import { readExtendedToml } from '../../files/extended-toml.ts';
import { assertKnownKeys } from '../../files/toml-text.ts';

/** A training: flags of vf-train, and arguments of the environment. */
export interface TrainingTable {
  readonly flags: readonly string[];
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** Options of a stage as words of its command line. */
type StageWords = readonly string[];

export interface RoundsConfig {
  readonly path: string;
  /** Folder of all outputs of the rounds. */
  readonly output: string;
  readonly environment: string;
  /** A data set's name, or a file. */
  readonly rows: string;
  /** Argument of the environment that takes rows. */
  readonly rowsArgument: string;
  readonly rounds: number;
  /** Adapter that phase 1 starts from; null for the base model. */
  readonly adapter: string | null;
  readonly phase1: TrainingTable;
  /** One for each focused round; the last one also for all further rounds. */
  readonly focused: readonly [TrainingTable, ...TrainingTable[]];
  readonly sft: TrainingTable & { readonly from: 'start' | 'focused' };
  readonly bucket: StageWords;
  /** Null: bucket 0 is not trained. `hard`: which rows of bucket A round 1 has with it. */
  readonly review: { readonly exclude: readonly string[]; readonly hard: StageWords } | null;
  /** Null: no reference is verified between rounds. */
  readonly verify: StageWords | null;
  readonly focus: StageWords;
  readonly extract: StageWords;
  /** Null: neither vetted nor rewritten. */
  readonly vet: StageWords | null;
  readonly rewrite: StageWords | null;
  readonly finalize: StageWords;
  /** Digest of all settings that decide the results of the rounds; more rounds may be added. */
  readonly digest: string;
}

const TOP = ['output', 'environment', 'rows', 'rows_argument', 'rounds', 'adapter', 'arguments', 'flags'] as const;
/** Options of the stages, by table. */
const STAGE_KEYS = {
  bucket: ['low', 'high', 'measure', 'leave_out_unknown'],
  verify: ['role', 'config', 'low', 'found', 'measure'],
  review: ['exclude', 'threshold', 'measure'],
  focus: ['threshold', 'measure'],
  extract: ['success', 'threshold', 'min_rate', 'max_rate', 'max_turns', 'top', 'success_only'],
  vet: ['role', 'config'],
  rewrite: ['role', 'config'],
  finalize: ['most', 'system_errors'],
} as const;
/** The longest path of Linux. */
const LONGEST_TEXT = 4096;
/** Flags and arguments become words of a command line; Linux takes at most 128 KiB for one. */
const LONGEST_WORDS = 100_000;
/** Of which a list has one table for each round. */
const FOCUSED = 'focused';
const TABLES = ['phase1', FOCUSED, 'sft', ...Object.keys(STAGE_KEYS)];

export function readRoundsConfig(path: string): RoundsConfig {
  const document = readExtendedToml(path);
  assertKnownKeys(document, [...TOP, ...TABLES], path);
  const { rounds: _, ...decides } = document;
  const text = (key: string, fallback: string | null) => textAt(document, key, path, fallback);
  const focused = focusedTables(document, path);
  const rounds = document['rounds'] ?? focused.length;
  if (typeof rounds !== 'number' || !Number.isInteger(rounds) || rounds < 1) throw wrong(path, 'rounds', 'a whole number of at least 1', rounds);
  if (rounds < focused.length)
    throw new ConfigError(
      `${path} has ${focused.length} tables [[${FOCUSED}]], one for each round, but rounds = ${rounds}; leave rounds out or raise it`,
    );
  const common = trainingOf(document, path, { flags: [], arguments: {} });
  const trainingIn = (table: Table, where: string, more: readonly string[] = []) => {
    assertKnownKeys(table, ['flags', 'arguments', ...more], where);
    return trainingOf(table, where, common);
  };
  const training = (name: string, more?: readonly string[]) => trainingIn(tableAt(document, name, path) ?? {}, `[${name}] of ${path}`, more);
  const stage = (name: keyof typeof STAGE_KEYS) => stageWords(tableAt(document, name, path), name, path);
  const sft = tableAt(document, 'sft', path) ?? {};
  const from = sft['from'] ?? 'start';
  if (from !== 'start' && from !== 'focused') throw wrong(`[sft] of ${path}`, 'from', '"start" or "focused"', from);
  const review = tableAt(document, 'review', path);
  const { exclude: _exclude, ...hard } = review ?? {};
  return {
    path,
    output: text('output', join(dirname(path), basename(path).replace(/\.toml$/, '')))!,
    environment: environmentAt(document, path),
    rows: text('rows', null) ?? missing(path, 'rows', 'the rows of phase 1: a file, or a data set that comes with the package'),
    rowsArgument: text('rows_argument', 'dataset')!,
    adapter: text('adapter', null),
    rounds,
    phase1: training('phase1'),
    focused: focused.map(([table, name]) => trainingIn(table, `${name} of ${path}`)) as [TrainingTable, ...TrainingTable[]],
    sft: { ...training('sft', ['from']), from },
    bucket: stage('bucket') ?? [],
    review: review === null ? null : { exclude: textsAt(review, 'exclude', `[review] of ${path}`), hard: stageWords(hard, 'review', path)! },
    verify: stage('verify'),
    focus: stage('focus') ?? [],
    extract: stage('extract') ?? [],
    vet: stage('vet'),
    rewrite: stage('rewrite'),
    finalize: stage('finalize') ?? [],
    digest: createHash('sha256').update(JSON.stringify(decides)).digest('hex'),
  };
}

type Table = Readonly<Record<string, unknown>>;

/** The training of a focused round, from 1, with the name of its table. */
export function focusedAt({ focused }: Pick<RoundsConfig, 'focused'>, round: number): readonly [TrainingTable, name: string] {
  const i = Math.min(round, focused.length) - 1;
  return [focused[i]!, focused.length === 1 ? `[${FOCUSED}]` : `[[${FOCUSED}]] ${i + 1}`];
}

/** The tables of the focused rounds with their names: `[focused]` alone, or each `[[focused]]`. */
function focusedTables(document: Table, path: string): readonly (readonly [Table, name: string])[] {
  const value = document[FOCUSED];
  if (!Array.isArray(value)) return [[tableAt(document, FOCUSED, path) ?? {}, `[${FOCUSED}]`]];
  if (value.length === 0 || !value.every(isObject)) throw wrong(path, FOCUSED, 'a table, or a list of tables', value);
  return value.map((table, i) => [table, `[[${FOCUSED}]] ${i + 1}`]);
}

function trainingOf(table: Table, where: string, common: TrainingTable): TrainingTable {
  const own = table['arguments'] ?? {};
  if (!isObject(own)) throw wrong(where, 'arguments', 'a table', own);
  const training = { flags: [...common.flags, ...textsAt(table, 'flags', where)], arguments: { ...common.arguments, ...own } };
  for (const key of ['flags', 'arguments'] as const) {
    const { length } = JSON.stringify(training[key]);
    if (length > LONGEST_WORDS) throw new ConfigError(`${key} in ${where} have ${length} characters; a command takes at most ${LONGEST_WORDS}`);
  }
  return training;
}

function environmentAt(document: Table, path: string): string {
  const name = textAt(document, 'environment', path, 'visual-rag')!;
  if (name.startsWith('-')) throw wrong(path, 'environment', 'the name of an environment, without a dash before it', name);
  return name;
}

/** `max_rate = 0.5` becomes `--max-rate 0.5`; null if the table is missing. */
function stageWords(table: Table | null, name: keyof typeof STAGE_KEYS, path: string): StageWords | null {
  if (table === null) return null;
  assertKnownKeys(table, STAGE_KEYS[name], `[${name}] of ${path}`);
  return Object.entries(table).flatMap(([key, value]) => {
    const flag = `--${key.replaceAll('_', '-')}`;
    if (typeof value === 'boolean') return value ? [flag] : [];
    if (typeof value === 'string' || typeof value === 'number') return [flag, String(value)];
    if (Array.isArray(value)) return textsAt(table, key, `[${name}] of ${path}`).flatMap((each) => [flag, each]);
    throw wrong(`[${name}] of ${path}`, key, 'text, a number, true or false', value);
  });
}

function tableAt(document: Table, name: string, path: string): Table | null {
  const value = document[name];
  if (value === undefined) return null;
  if (!isObject(value)) throw wrong(path, name, 'a table', value);
  return value;
}

function textAt(table: Table, key: string, where: string, fallback: string | null): string | null {
  const value = table[key];
  if (value === undefined) return fallback;
  if (typeof value !== 'string' || value === '') throw wrong(where, key, 'text', value);
  if (value.length > LONGEST_TEXT || value.includes('\0')) throw wrong(where, key, `at most ${LONGEST_TEXT} characters without a zero byte`, value);
  return value;
}

function textsAt(table: Table, key: string, where: string): readonly string[] {
  const value = table[key] ?? [];
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string' && !each.includes('\0')))
    throw wrong(where, key, 'a list of texts', value);
  return value;
}

function wrong(where: string, key: string, allowed: string, value: unknown): ConfigError {
  return new ConfigError(`${key} in ${where} must be ${allowed}, got ${JSON.stringify(value).slice(0, 100)}`);
}

function missing(where: string, key: string, what: string): never {
  throw new ConfigError(`${where} has no ${key}: give ${what}`);
}
