/** The page of a training run: its settings, events, steps, and its held-out rows over time. */
import { isObject } from '../schemas/is-object.ts';
import { type Fields, factsOf } from './loose-fields.ts';
import type { OpenRun } from './open-run.ts';
import { partsOf } from './record-parts.ts';
import type { RolloutReader } from './rollout-reader.ts';
import type { RolloutTable } from './rollout-table.ts';
import type { SetFile } from './rollout-sets.ts';
import { stepAdvantages } from './step-advantages.ts';
import { ViewRequestError } from './view-problem.ts';
import type { HeldOutDetail, HeldOutLine, StepDetail, StepGroup, TrainingDetail } from './view-wire.ts';

const MOST_HELD_OUT = 500;

export async function trainingDetail(run: OpenRun): Promise<TrainingDetail> {
  const [line, sets, config, events] = await Promise.all([run.line(), run.sets(), run.wholeSettings(), readable(run.events.events())]);
  const heldOut = await heldOutLines(run, sets);
  return {
    kind: 'training',
    run: line,
    facts: factsOfConfig(config),
    sets: sets.map(({ set }) => set),
    held_out: heldOut,
    events: events ?? [],
  };
}

export async function stepDetail(run: OpenRun, step: number): Promise<StepDetail> {
  const all = (await run.sets()).filter(({ set }) => set.kind === 'step');
  const sets = all.filter(({ set }) => set.step === step);
  if (sets.length === 0) throw new ViewRequestError(404, `The run ${run.found.id} has no rollouts of step ${step} on file. Choose another step.`);
  const groups: StepGroup[] = [];
  let isComplete = true;
  let problem: string | null = null;
  for (const file of sets) {
    const reader = await run.reader(file);
    const table = await reader.table();
    isComplete &&= table.isComplete;
    const advantages = await stepAdvantages(run, file, table);
    problem ??= advantages.problem;
    const rows = [...table.rows];
    const lines = await reader.rolloutLines(table, rows);
    for (const members of Map.groupBy(rows.keys(), (i) => lines[i]!.group).values()) {
      const rollouts = members.map((i) => ({ ...lines[i]!, ...advantages.of(rows[i]!) })).toSorted((a, b) => a.index - b.index);
      groups.push({ set: file.set.id, group: rollouts[0]!.group, question: rollouts[0]!.question, rollouts });
    }
  }
  return { step, steps: [...new Set(all.map(({ set }) => set.step!))], groups, complete: isComplete, advantages_problem: problem };
}

export async function heldOutDetail(run: OpenRun, group: string): Promise<HeldOutDetail> {
  const evaluations: HeldOutDetail['evaluations'][number][] = [];
  for (const file of await evaluationsOf(run)) {
    const found = await readable(tableOf(run, file));
    if (found === null) continue;
    const { reader, table } = found;
    const name = table.name('group');
    const rows = [...table.rows].filter((row) => name(row) === group).toSorted((a, b) => table.index(a) - table.index(b));
    const records = await reader.records(table, rows);
    const lines = await reader.rolloutLines(table, rows);
    const rollouts = lines.map((line, i) => ({ ...line, parts: partsOf(records.get(rows[i]!) ?? {}) }));
    evaluations.push({ step: file.set.step!, set: file.set.id, rollouts });
  }
  const question = evaluations.flatMap(({ rollouts }) => rollouts).findLast((rollout) => rollout.question !== '')?.question ?? '';
  if (evaluations.every(({ rollouts }) => rollouts.length === 0))
    throw new ViewRequestError(404, `No evaluation of ${run.found.id} has a row "${group.slice(0, 100)}". Choose one of its held-out rows.`);
  return { group, question, answer: null, evaluations };
}

async function evaluationsOf(run: OpenRun): Promise<SetFile[]> {
  return (await run.sets()).filter(({ set }) => set.kind === 'evaluation' && !set.older);
}

async function tableOf(run: OpenRun, file: SetFile): Promise<{ readonly reader: RolloutReader; readonly table: RolloutTable }> {
  const reader = await run.reader(file);
  return { reader, table: await reader.table() };
}

/** Null for a file that is damaged or no file of the run, which costs only what it holds. `RunDamage` says so. */
async function readable<T>(reading: Promise<T>): Promise<T | null> {
  return await reading.catch(() => null);
}

/** Of the newest setup of the evaluations. */
async function heldOutLines(run: OpenRun, sets: readonly SetFile[]): Promise<HeldOutLine[]> {
  const rewards = new Map<string, { step: number; reward: number | null }[]>();
  let last: { readonly reader: RolloutReader; readonly table: RolloutTable } | null = null;
  for (const file of sets.filter(({ set }) => set.kind === 'evaluation' && !set.older)) {
    const found = await readable(tableOf(run, file));
    if (found === null) continue;
    const { reader, table } = found;
    if (table.size > 0) last = { reader, table };
    for (const [group, reward] of meanRewards(table)) {
      const line = rewards.get(group) ?? [];
      rewards.set(group, line);
      line.push({ step: file.set.step!, reward });
    }
  }
  const lines = [...rewards].toSorted(([, a], [, b]) => changeOf(b) - changeOf(a)).slice(0, MOST_HELD_OUT);
  const questions =
    last === null
      ? new Map<string, string>()
      : await last.reader.questions(last.table, firstRows(last.table, new Set(lines.map(([group]) => group))));
  return lines.map(([group, all]) => ({ group, question: questions.get(group) ?? '', rewards: all }));
}

/** The mean reward of each group; null if all of its rollouts failed. */
function meanRewards(table: RolloutTable): Map<string, number | null> {
  const sums = new Map<string, { sum: number; count: number }>();
  const [group, reward] = [table.name('group'), table.number('reward')];
  for (const row of table.rows) {
    const own = sums.get(group(row)!) ?? { sum: 0, count: 0 };
    sums.set(group(row)!, own);
    if (Number.isNaN(reward(row))) continue;
    own.sum += reward(row);
    own.count += 1;
  }
  return new Map([...sums].map(([name, { sum, count }]) => [name, count === 0 ? null : sum / count]));
}

function firstRows(table: RolloutTable, groups: ReadonlySet<string>): number[] {
  const group = table.name('group');
  const first = new Map<string, number>();
  for (const row of table.rows) if (groups.has(group(row)!) && !first.has(group(row)!)) first.set(group(row)!, row);
  return [...first.values()];
}

function changeOf(rewards: readonly { readonly reward: number | null }[]): number {
  const known = rewards.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return known.length < 2 ? 0 : Math.abs(known.at(-1)! - known[0]!);
}

/** Every setting as `section.key`. */
function factsOfConfig(config: Fields, prefix = ''): TrainingDetail['facts'][number][] {
  return Object.entries(config).flatMap(([key, value]) => {
    const isSection = isObject(value) && !['args', 'eval_args', 'env'].includes(key);
    return isSection ? factsOfConfig(value, `${prefix}${key}.`) : factsOf({ [prefix + key]: value });
  });
}
