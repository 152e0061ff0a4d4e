/** A training run as the page shows it: its line in the list, its settings, and the advantages of a step. */
import { parse as parseToml } from 'smol-toml';
import { hasLivingWriter } from '../files/run-lock.ts';
import { readLines } from '../files/json-lines.ts';
import { readRegularFile } from '../files/regular-file.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { parseWire } from '../schemas/results.ts';
import { TrainingRunSchema } from '../schemas/training-records.ts';
import { resolveTrainingConfig } from '../trainer/config/resolve-config.ts';
import { groupAdvantages } from '../trainer/credit/group-advantages.ts';
import { EVALUATION_METRICS, STEP_METRICS, VALIDATION_METRICS } from '../trainer/records/metrics.ts';
import { trainingPaths } from '../trainer/records/training-directory.ts';
import { numberOf, textOf } from './recorded-parts.ts';
import type { MetricLines, RolloutLine, RunLine, TrainingDetail } from './view-wire.ts';

type Table = Readonly<Record<string, unknown>>;

/** What config.toml says. Throws where it cannot be read. */
export async function trainingTable(directory: string): Promise<Table> {
  return parseToml(await readRegularFile(trainingPaths(directory).config));
}

export function modelOf(table: Table): string {
  return textOf(fieldsOf(table['model'])['path']);
}

export async function trainingLine(id: string, directory: string): Promise<RunLine> {
  const paths = trainingPaths(directory);
  const parsed = parseWire(TrainingRunSchema, await readRegularFile(paths.run));
  if ('problem' in parsed) throw new Error(`run.json is not that of a training run: ${parsed.problem}`);
  const table = await trainingTable(directory);
  const curve: { step: number; value: number }[] = [];
  let [done, updated, reward] = [0, null as string | null, null as RunLine['reward']];
  for await (const { text } of readLines(paths.metrics)) {
    const row = parseRow(text);
    if (row === null) continue;
    updated = row.time;
    if (row.kind === 'step') done = Math.max(done, row.step);
    const mean = row.values['reward_mean'];
    if (row.kind !== 'evaluation' || mean === null || mean === undefined) continue;
    curve.push({ step: row.step, value: mean });
    reward = { value: mean, low: row.values['reward_low'] ?? null, high: row.values['reward_high'] ?? null, n: row.values['rollouts'] ?? 0 };
  }
  return {
    id,
    kind: 'training',
    environment: textOf(fieldsOf(table['environment'])['id']),
    model: modelOf(table),
    started_at: parsed.value.started_at,
    updated_at: parsed.value.finished_at ?? updated,
    state: parsed.value.finished_at !== null ? 'complete' : (await hasLivingWriter(directory)) ? 'running' : 'stopped',
    done,
    planned: numberOf(table['steps']),
    reward,
    curve,
    problem: null,
  };
}

/** Every setting that is not a default's absence, as `section.key`. */
export function trainingFacts(table: Table, prefix = ''): { name: string; value: string }[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const isSection = isObject(value) && !['args', 'eval_args', 'env'].includes(key);
    return isSection
      ? trainingFacts(value, `${prefix}${key}.`)
      : [{ name: prefix + key, value: typeof value === 'string' ? value : JSON.stringify(value) }];
  });
}

export function parseRow(text: string): MetricLines['lines'][number] | null {
  let row: Table;
  try {
    row = fieldsOf(JSON.parse(text));
  } catch {
    return null;
  }
  const { kind, step, time, ...values } = row;
  if ((kind !== 'step' && kind !== 'evaluation' && kind !== 'validation') || typeof step !== 'number') return null;
  return { kind, step, time: textOf(time), values: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, numberOf(value)])) };
}

export const MEANINGS: Readonly<Record<string, string>> = Object.fromEntries(
  [...VALIDATION_METRICS, ...EVALUATION_METRICS, ...STEP_METRICS].map(({ name, definition }) => [name, definition]),
);

export async function trainingEvents(directory: string): Promise<TrainingDetail['events']> {
  const events: TrainingDetail['events'][number][] = [];
  for await (const { text } of readLines(trainingPaths(directory).events)) {
    try {
      const { kind, step, time, message } = fieldsOf(JSON.parse(text));
      events.push({ kind: textOf(kind), step: numberOf(step) ?? 0, time: textOf(time), message: textOf(message) });
    } catch {
      // A line that is being written.
    }
  }
  return events;
}

/** The advantages of a group's rollouts, by index, as `GroupCredit` gives them before weights of age; or why they are not recomputed. */
export function advantagesOf(
  table: Table,
): { readonly problem: string } | { readonly of: (rollouts: readonly RolloutLine[]) => ReadonlyMap<number, number> } {
  let config;
  try {
    ({ config } = resolveTrainingConfig([{ source: 'config.toml of the run', table }]));
  } catch (error) {
    return { problem: `The run's configuration cannot be read, so advantages are not shown: ${(error as Error).message}` };
  }
  const { advantage, negateAdvantages, kl } = config.algorithm;
  if (advantage.scope !== 'group') return { problem: `Advantages over the scope "${advantage.scope}" depend on other steps and are not recomputed.` };
  if (kl.coefficient !== 0 && kl.placement === 'reward')
    return { problem: 'Advantages with a KL penalty in the reward need the model and are not recomputed.' };
  const sign = negateAdvantages ? -1 : 1;
  return {
    of: (rollouts) => {
      const finished = rollouts.filter(({ reward }) => reward !== null);
      if (finished.length < 2) return new Map();
      const { advantages } = groupAdvantages(
        finished.map(({ reward }) => reward!),
        { ...advantage, singleton: 'zero' },
      );
      return new Map(finished.map(({ index }, i) => [index, sign * advantages[i]!]));
    },
  };
}
