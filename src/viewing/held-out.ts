/** Held-out rows over the evaluations of a training run. */
import type { SetReader } from './set-reader.ts';
import type { HeldOutDetail, HeldOutLine } from './view-wire.ts';
import { ViewRequestError } from './view-problem.ts';

const MOST_LINES = 500;

/** The rows of all evaluations, first those whose mean reward changed most. @param evaluations refreshed, ascending by step */
export async function heldOutLines(evaluations: readonly SetReader[]): Promise<HeldOutLine[]> {
  const groups = new Map<string, { rewards: { step: number; reward: number | null }[]; reader: SetReader; row: number }>();
  for (const reader of evaluations) {
    const rows = Map.groupBy(reader.index.query(), (row) => reader.index.row(row).group);
    for (const [group, members] of rows) {
      const entry = groups.get(group) ?? { rewards: [], reader, row: members[0]! };
      entry.rewards.push({ step: reader.set.step!, reward: meanReward(reader, members) });
      groups.set(group, entry);
    }
  }
  const ordered = [...groups].toSorted(([, a], [, b]) => spread(b.rewards) - spread(a.rewards)).slice(0, MOST_LINES);
  const lines: HeldOutLine[] = [];
  for (const [group, { rewards, reader, row }] of ordered) lines.push({ group, question: (await reader.lines([row]))[0]!.question, rewards });
  return lines;
}

export async function heldOutDetail(group: string, evaluations: readonly SetReader[]): Promise<HeldOutDetail> {
  const found: HeldOutDetail['evaluations'][number][] = [];
  let answer: unknown = null;
  let question = group;
  for (const reader of evaluations) {
    const rollouts = [];
    for (const row of reader.group(group)) {
      const { line, parts, answer: reference } = await reader.rollout(group, reader.index.row(row).index);
      [answer, question] = [reference, line.question];
      rollouts.push({ ...line, parts });
    }
    if (rollouts.length > 0) found.push({ step: reader.set.step!, set: reader.set.id, rollouts });
  }
  if (found.length === 0) throw new ViewRequestError(404, `No evaluation on file has the row ${JSON.stringify(group)}. Choose another one.`);
  return { group, question, answer, evaluations: found };
}

function meanReward(reader: SetReader, rows: readonly number[]): number | null {
  const rewards = rows.map((row) => reader.index.reward(row)).filter((reward) => reward !== null);
  return rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

function spread(rewards: readonly { readonly reward: number | null }[]): number {
  const values = rewards.map(({ reward }) => reward).filter((reward) => reward !== null);
  return values.length === 0 ? -1 : Math.max(...values) - Math.min(...values);
}
