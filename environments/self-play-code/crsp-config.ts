/**
 * The specification's YAML: its sections `crsp`, `trajectory_seeding` and `reward_structure`, with their defaults, types and ranges. Pure: `crsp-settings.ts`
 * says what the keys mean here, and `readCrspConfig` there reads files.
 */
import { choiceArgument, flagArgument, integerArgument, textArgument } from 'vf-search';
import { type ArgumentKind, fieldsOf, isObject, suggestion } from 'vf-search/environment-kit';
import { TASK_KINDS, type TaskKind } from './records.ts';

/** The complete configuration, by the names of the document. It is a document itself: `parseCrspConfig` gives the same configuration for it. */
export interface CrspConfig {
  readonly crsp: {
    /** At least 0. @default 1 */
    readonly seed: number;
    /** Workers that execute programs, at least 1. @default 1 */
    readonly executor_max_workers: number;
    /** Steps after which the document's executor is started again. Here each program has an interpreter of its own: a notice says that the key changes nothing. @default 1 */
    readonly executor_cleanup_frequency: number;
    /** At least one, each once. @default code_i, code_o and code_f */
    readonly problem_types: readonly TaskKind[];
  };
  readonly trajectory_seeding: {
    /** @default false */
    readonly enabled: boolean;
    /** Problems with worked solutions: a data set of the Hugging Face hub, a file, or a bundled name. @default GAIR/LIMO */
    readonly limo_dataset_path: string;
    /** Supervised steps. @default 1000 */
    readonly seeding_steps: number;
    /** Above 0. @default 1e-5 */
    readonly learning_rate: number;
    /** Rows of a step. @default 32 */
    readonly batch_size: number;
  };
  readonly reward_structure: {
    readonly alpha_decay: {
      /** @default true */
      readonly enabled: boolean;
      readonly schedule_type: 'rlsp_coupled';
    };
    readonly creativity_grading: {
      /** @default true */
      readonly enabled: boolean;
      /** The dimensions that the grading prompt names: at least one, each once. @default novelty, depth, diversity, persistence and rigor */
      readonly dimensions: readonly string[];
    };
    /** Lengths in tokens of the thinking. */
    readonly length_reward: {
      /** The length that is rewarded with 1, at least 2. @default 2048 */
      readonly max_length: number;
      /** The length from which the reward falls, at least 1. @default 4096 */
      readonly penalty_threshold: number;
    };
  };
}

export type ParsedCrspConfig =
  /** `givenKeys`: the keys that the document has, dotted, in the order of the specification. */
  | { readonly ok: true; readonly config: CrspConfig; readonly givenKeys: readonly string[] }
  /** `key`: the first key that cannot be used, dotted; `problem` names it, with its value. */
  | { readonly ok: false; readonly key: string; readonly problem: string };

interface Setting {
  readonly value: unknown;
  readonly kind: ArgumentKind<unknown>;
}

interface Section {
  readonly [name: string]: Section | Setting;
}

const set = <T>(kind: ArgumentKind<T>, value: T): Setting => ({ kind, value });

const ABOVE_ZERO: ArgumentKind<number> = { expected: 'a number above 0', accepts: (v): v is number => Number.isFinite(v) && (v as number) > 0 };

const problemTypes: ArgumentKind<readonly TaskKind[]> = {
  expected: `a list of ${TASK_KINDS.join(', ')}, with at least one of them and none twice`,
  accepts: (v): v is readonly TaskKind[] => isListOf(v, (name) => (TASK_KINDS as readonly unknown[]).includes(name)),
};

const dimensions: ArgumentKind<readonly string[]> = {
  expected: 'a list of names of at most 64 characters in one line, with at least one of them and none twice',
  accepts: (v): v is readonly string[] => isListOf(v, (name) => typeof name === 'string' && /^[^\p{C}]{1,64}$/u.test(name) && name.trim() !== ''),
};

function isListOf(value: unknown, accepts: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && new Set(value).size === value.length && value.every(accepts);
}

/** Every key with its default, in the order of the document. */
const SECTIONS: Section = {
  crsp: {
    seed: set(integerArgument(0), 1),
    executor_max_workers: set(integerArgument(1), 1),
    executor_cleanup_frequency: set(integerArgument(1), 1),
    problem_types: set(problemTypes, ['code_i', 'code_o', 'code_f']),
  },
  trajectory_seeding: {
    enabled: set(flagArgument, false),
    limo_dataset_path: set(textArgument, 'GAIR/LIMO'),
    seeding_steps: set(integerArgument(1), 1000),
    learning_rate: set(ABOVE_ZERO, 1e-5),
    batch_size: set(integerArgument(1), 32),
  },
  reward_structure: {
    alpha_decay: { enabled: set(flagArgument, true), schedule_type: set(choiceArgument('rlsp_coupled'), 'rlsp_coupled') },
    creativity_grading: {
      enabled: set(flagArgument, true),
      dimensions: set(dimensions, ['novelty', 'depth', 'diversity', 'persistence', 'rigor']),
    },
    length_reward: { max_length: set(integerArgument(2), 2048), penalty_threshold: set(integerArgument(1), 4096) },
  },
};

/** Every key, dotted, in the order of the document: `crsp.seed`, ... */
export const CRSP_KEYS: readonly string[] = keysOf(SECTIONS, '');

function keysOf(section: Section, prefix: string): string[] {
  return Object.entries(section).flatMap(([name, entry]) => (isSetting(entry) ? [prefix + name] : keysOf(entry, `${prefix}${name}.`)));
}

function isSetting(entry: Section | Setting): entry is Setting {
  return 'kind' in entry;
}

/**
 * Checks a document and completes it with the defaults; a section or key that is missing, and a section that is empty, has them. Never throws. Reports the
 * first unknown key, else the first bad value, in the order of the document.
 * @param document parsed YAML or JSON; null for an empty one
 * @example parseCrspConfig({ crsp: { sead: 1 } }) // { ok: false, key: 'crsp.sead', problem: 'The key crsp.sead is unknown (did you mean seed?). ...' }
 */
export function parseCrspConfig(document: unknown): ParsedCrspConfig {
  const problem = unknownKey(SECTIONS, document, '') ?? badValue(SECTIONS, document, '');
  if (problem !== null) return { ok: false, ...problem };
  const config = completed(SECTIONS, document) as unknown as CrspConfig;
  return { ok: true, config, givenKeys: CRSP_KEYS.filter((key) => isGiven(document, key.split('.'))) };
}

interface Problem {
  readonly key: string;
  readonly problem: string;
}

function unknownKey(section: Section, given: unknown, prefix: string): Problem | null {
  for (const [name, value] of Object.entries(fieldsOf(given))) {
    const key = prefix + name;
    const entry = Object.hasOwn(section, name) ? section[name]! : null;
    if (entry === null) return { key, problem: unknownText(section, name, prefix) };
    const inner = isSetting(entry) ? null : unknownKey(entry, value, `${key}.`);
    if (inner !== null) return inner;
  }
  return null;
}

function unknownText(section: Section, name: string, prefix: string): string {
  const names = Object.keys(section);
  const what = prefix === '' ? 'section' : 'key';
  const where = prefix === '' ? 'The sections are' : `The keys of ${prefix.slice(0, -1)} are`;
  // A name of the document may have any length and content.
  const shown = /^\w{1,40}$/.test(name) ? prefix + name : prefix + JSON.stringify(name).slice(0, 60);
  return `The ${what} ${shown} is unknown${suggestion(name, names)}. ${where} ${names.join(', ')}`;
}

function badValue(section: Section, given: unknown, prefix: string): Problem | null {
  if (given !== null && given !== undefined && !isObject(given)) {
    const what = prefix === '' ? 'The document' : prefix.slice(0, -1);
    return { key: prefix.slice(0, -1), problem: `${what} must hold keys with values, got ${shownValue(given)}` };
  }
  const fields = fieldsOf(given);
  for (const [name, entry] of Object.entries(section)) {
    if (!Object.hasOwn(fields, name)) continue;
    const key = prefix + name;
    if (!isSetting(entry)) {
      const inner = badValue(entry, fields[name], `${key}.`);
      if (inner !== null) return inner;
    } else if (!entry.kind.accepts(fields[name])) {
      return { key, problem: `${key} must be ${entry.kind.expected}, got ${shownValue(fields[name])}` };
    }
  }
  return null;
}

function shownValue(value: unknown): string {
  // YAML's .inf and .nan have no form in JSON.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing');
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}

function completed(section: Section, given: unknown): Record<string, unknown> {
  const fields = fieldsOf(given);
  const values = Object.entries(section).map(([name, entry]) => {
    if (!isSetting(entry)) return [name, completed(entry, fields[name])];
    return [name, structuredClone(Object.hasOwn(fields, name) ? fields[name] : entry.value)];
  });
  return Object.fromEntries(values) as Record<string, unknown>;
}

function isGiven(document: unknown, [name, ...rest]: readonly string[]): boolean {
  const fields = fieldsOf(document);
  return name === undefined || (Object.hasOwn(fields, name) && isGiven(fields[name], rest));
}
