/**
 * The settings that held for some of a run's steps only, by its events, which are the one record of changes: `config.toml` has the settings of the last step. A setting is
 * in the history if its change leads to other weights: where things run, the files that are kept and how the run is evaluated do not.
 */
import { existsSync } from 'node:fs';
import type { RecordedSettings } from '../../core/setting-differences.ts';
import { settingValue } from '../../core/setting-number.ts';
import { readLines } from '../../files/json-lines.ts';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { isObject } from '../../schemas/is-object.ts';
import { parseWire } from '../../schemas/results.ts';
import { EventLineSchema, type WireEventLine } from '../../schemas/training-records.ts';
import { isShaping } from '../config/resume-config.ts';

/** The values of a setting, each with the first step that it held for, the first one 1. */
export interface ChangedSetting {
  /** Dotted, snake_case; `files.<key>` for the contents of the files that a setting names. */
  readonly key: string;
  readonly values: readonly { readonly from: number; readonly value: unknown }[];
}

type HistoryEvent = Pick<WireEventLine, 'kind' | 'step' | 'message' | 'changes'>;

export class SettingHistory {
  readonly #values = new Map<string, { from: number; value: unknown }[]>();

  /** Takes the events of a run in their order. */
  add({ kind, step, message, changes = kind === 'settings_changed' ? changesIn(message) : [] }: HistoryEvent): void {
    // The steps after a checkpoint are repeated with the settings of now.
    if (kind === 'resumed') for (const [key, values] of this.#values) this.#hold(key, step, values.at(-1)!.value);
    for (const { key, before = null, after = null } of changes) {
      if (!this.#values.has(key)) this.#values.set(key, [{ from: 1, value: before }]);
      this.#hold(key, step, after);
    }
  }

  #hold(key: string, after: number, value: unknown): void {
    const kept = this.#values.get(key)!.filter(({ from }) => from <= after);
    if (kept.length === 0 || !isSame(kept.at(-1)!.value, value)) kept.push({ from: after + 1, value });
    this.#values.set(key, kept);
  }

  /** The settings that these steps were trained with. @param settings of config.toml @param step the last one of them */
  through(settings: RecordedSettings, step: number): TrainedSettings {
    const all = [...this.#values].filter(([key]) => isShaping(key, settings));
    const held = all.map(([key, values]): ChangedSetting => ({ key, values: values.filter(({ from }) => from === 1 || from <= step) }));
    return { last: withValues(settings, held, ({ values }) => values.at(-1)!.value), changed: held.filter(({ values }) => values.length > 1) };
  }
}

export interface TrainedSettings {
  /** Those of the last of the steps: without changes that were made later. */
  readonly last: RecordedSettings;
  /** Those with several values. */
  readonly changed: readonly ChangedSetting[];
}

/** Of the run whose events these are; empty without the file. Skips unreadable lines. */
export async function readSettingHistory(path: string): Promise<SettingHistory> {
  const history = new SettingHistory();
  if (!existsSync(path)) return history;
  for await (const { text } of readLines(path)) {
    const parsed = parseWire(EventLineSchema, text);
    if ('value' in parsed) history.add(parsed.value);
  }
  return history;
}

/** As recorded settings that differ from those of a run which had one value throughout: each changed one has its values as text. */
export function wholeSettings({ last, changed }: TrainedSettings): RecordedSettings {
  return withValues(last, changed, valuesText);
}

/** `0.001 in steps 1-12, then 0.002` */
export function valuesText({ values }: Pick<ChangedSetting, 'values'>, text: (value: unknown) => string = valueText): string {
  return values
    .map(({ from, value }, i) => {
      const end = values[i + 1]?.from;
      if (end === undefined) return `then ${text(value)}`;
      return `${text(value)} in ${end - 1 === from ? `step ${from}` : `steps ${from}-${end - 1}`}`;
    })
    .join(', ');
}

/** `optimizer.learning_rate 0.001 in steps 1-12, then 0.002` */
export function changedText(changed: ChangedSetting): string {
  const files = /^files\.(.+)$/.exec(changed.key)?.[1];
  return `${files === undefined ? changed.key : `the files of ${files}:`} ${valuesText(changed)}`;
}

function valueText(value: unknown): string {
  return value === null ? 'unset' : typeof value === 'string' ? value : settingValue(value);
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function withValues(settings: RecordedSettings, changed: readonly ChangedSetting[], value: (each: ChangedSetting) => unknown): RecordedSettings {
  return changed.reduce((table, each) => withValue(table, each.key.split('.'), value(each)), settings);
}

function withValue(table: RecordedSettings, [name = '', ...rest]: readonly string[], value: unknown): RecordedSettings {
  const inner = table[name];
  return { ...table, [name]: rest.length === 0 ? value : withValue(isObject(inner) ? inner : {}, rest, value) };
}

/** Of an event of an earlier version, which has them in its text alone: `Changed optimizer.learning_rate from 0.001 to 0.002; ...`. */
function changesIn(message: string): NonNullable<WireEventLine['changes']> {
  const found = message.matchAll(/(?:^Changed |; )([a-z_.]+) from (.+?) to (.+?)(?=; [a-z_.]+ |$)/g);
  const parsed = (text: string) => (text === 'unset' ? null : (jsonOrNull(text) ?? text));
  return Array.from(found, ([, key, before, after]) => ({ key: key!, before: parsed(before!), after: parsed(after!) }));
}
