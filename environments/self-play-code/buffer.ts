/**
 * The programs that have been accepted so far, which are replayed, shown as references, and described. Pure: its content is a function of the arguments of `add`, in
 * order, and a draw is a function of its generator.
 */
import { createHash } from 'node:crypto';
import { ConfigError, type Random } from 'vf-search';
import { soughtValues } from './bonuses.ts';
import type { FunctionRecord, IoRecord, TaskKind, TaskRecord } from './records.ts';

export const FILTERS = ['all', 'non_one', 'non_extremes'] as const;
/** The rule that selects the accepted programs to keep: all, those that were not always solved, or those that were solved sometimes. */
export type BufferFilter = (typeof FILTERS)[number];

export const MIXES = ['max_new', 'half_new', 'uniform_total', 'step'] as const;
/**
 * The programs to replay, by Absolute Zero's names: `max_new` those of the last step, filled up from the rest; `half_new` half of each; `uniform_total` any;
 * `step` any, with a weight that grows with the step of a program.
 */
export type BufferMix = (typeof MIXES)[number];

export interface BufferEntry {
  readonly record: TaskRecord;
  /** The step that accepted it; 0 for the tasks that the run began with. */
  readonly step: number;
  /** Mean of its solutions when it was proposed, in [0, 1]; null for the tasks that the run began with. */
  readonly accuracy: number | null;
}

export interface BufferOptions {
  /** @default 'all' */
  readonly filter?: BufferFilter;
  /** The newest are kept. @default 16,384, as upstream */
  readonly maxPrograms?: number;
}

export interface DrawOptions {
  readonly kind: TaskKind;
  readonly count: number;
  readonly mix: BufferMix;
  /** Programs of this step and later are new. */
  readonly newSince: number;
  /** Programs of this step and later take no part. @default all do */
  readonly before?: number;
  readonly random: Random;
}

/** The part of the buffer that a checkpoint holds. */
export interface BufferState {
  readonly entries: readonly BufferEntry[];
  /** The number of times that each program was proposed, by its digest. */
  readonly seen: Readonly<Record<string, number>>;
}

export class ProgramBuffer {
  readonly #filter: BufferFilter;
  readonly #maxPrograms: number;
  #entries: readonly BufferEntry[] = [];
  #seen = new Map<string, number>();

  constructor({ filter = 'all', maxPrograms = 16_384 }: BufferOptions = {}) {
    this.#filter = filter;
    this.#maxPrograms = maxPrograms;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** The number of times that this program was proposed before. */
  seen(record: TaskRecord): number {
    return this.#seen.get(programDigest(record)) ?? 0;
  }

  /** Counts a proposed program, whether it is kept or not. */
  count(record: TaskRecord): void {
    const digest = programDigest(record);
    this.#seen.set(digest, (this.#seen.get(digest) ?? 0) + 1);
  }

  /** Adds the entries that pass the filter; beyond the maximum, the oldest entries leave. */
  add(entries: readonly BufferEntry[]): void {
    const kept = entries.filter(({ accuracy }) => passes(accuracy, this.#filter));
    this.#entries = [...this.#entries, ...kept].slice(-this.#maxPrograms);
  }

  /** Different tasks of a kind, at most `count`, in the order of their draw. */
  draw({ kind, count, mix, newSince, before = Infinity, random }: DrawOptions): TaskRecord[] {
    const all = this.#entries.filter(({ record, step }) => record.kind === kind && step < before);
    const recent = all.filter(({ step }) => step >= newSince);
    const old = all.filter(({ step }) => step < newSince);
    if (mix === 'uniform_total') return recordsOf(random.shuffle(all).slice(0, count));
    if (mix === 'step') return recordsOf(weighted(all, count, random));
    const most = mix === 'max_new' ? count : Math.ceil(count / 2);
    const chosen = random.shuffle(recent).slice(0, most);
    const filled = random.shuffle(mix === 'max_new' ? old : all.filter((entry) => !chosen.includes(entry))).slice(0, count - chosen.length);
    return recordsOf([...chosen, ...filled]);
  }

  /** Different programs with one input, of any kind: examples for a proposer's prompt, or programs to describe. */
  programs(count: number, random: Random): IoRecord[] {
    const io = this.#entries.flatMap(({ record }) => (record.kind === 'code_f' ? [] : [record]));
    const byProgram = new Map(io.map((record) => [programDigest(record), record]));
    return random.shuffle([...byProgram.values()]).slice(0, count);
  }

  /** The values that the programs of a kind ask others to find, with repetitions. */
  values(kind: TaskKind): string[] {
    return this.#entries.flatMap(({ record }) => (record.kind === kind ? soughtValues(record) : []));
  }

  toState(): BufferState {
    return { entries: this.#entries, seen: Object.fromEntries(this.#seen) };
  }

  /** Throws ConfigError if the checkpoint's file does not hold a buffer. */
  load(text: string): void {
    const state = stateIn(text);
    if (!Array.isArray(state?.entries) || typeof state.seen !== 'object' || state.seen === null)
      throw new ConfigError('The checkpoint has no usable buffer of programs. Resume from an earlier checkpoint.');
    this.#entries = state.entries;
    this.#seen = new Map(Object.entries(state.seen));
  }
}

function stateIn(text: string): BufferState | null {
  try {
    return JSON.parse(text) as BufferState | null;
  } catch {
    return null;
  }
}

function passes(accuracy: number | null, filter: BufferFilter): boolean {
  if (accuracy === null || filter === 'all') return true;
  return accuracy < 1 && (filter === 'non_one' || accuracy > 0);
}

/** Draws without replacement; the weight of an entry is its step plus 1. */
function weighted(entries: readonly BufferEntry[], count: number, random: Random): BufferEntry[] {
  const left = [...entries];
  const chosen: BufferEntry[] = [];
  while (chosen.length < count && left.length > 0) {
    let at = random.float() * left.reduce((sum, { step }) => sum + step + 1, 0);
    const found = left.findIndex(({ step }) => (at -= step + 1) < 0);
    chosen.push(...left.splice(found === -1 ? left.length - 1 : found, 1));
  }
  return chosen;
}

function recordsOf(entries: readonly BufferEntry[]): TaskRecord[] {
  return entries.map(({ record }) => record);
}

/** Two proposals with one digest repeat each other: the same program, and for `code_f` the same inputs, because its program is given. */
function programDigest(record: TaskRecord): string {
  const inputs = record.kind === 'code_f' ? (record satisfies FunctionRecord).inputs.toSorted() : [];
  return createHash('sha256')
    .update(JSON.stringify([record.snippet.trim(), ...inputs]))
    .digest('base64url')
    .slice(0, 12);
}
