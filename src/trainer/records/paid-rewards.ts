/**
 * The rewards that a source gave by `withReward`: `step-000012.propose_rewards.jsonl` next to `step-000012.propose.jsonl`, whose rollouts have none, or those of the rubric. It is written
 * as a whole when the source returns the step's batch, again after a resume. It is deleted before another rollout of its phase is written, so that its rewards are
 * those of the rollouts on file whenever the process is killed. For readers alone: a resumed run pays again.
 */
import { rm } from 'node:fs/promises';
import { ResultsError } from '../../core/errors.ts';
import { readLines, replaceFile } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { PaidRewardSchema, type WirePaidReward } from '../../schemas/training-records.ts';
import { type Trajectory, withReward } from '../trajectory.ts';

/** @param path of the phase's rollouts, as they were written or compressed. A thinned file has the rewards of the whole one. */
export function rewardsPath(path: string): string {
  return path.replace(/\.jsonl(?:\.thin)?((?:\.gz)?)$/, '_rewards.jsonl$1');
}

/** Without any, the file goes. @param path of the phase's rollouts */
export async function writePaidRewards(path: string, paid: readonly Trajectory[]): Promise<void> {
  if (paid.length === 0) return rm(rewardsPath(path), { force: true });
  const lines = paid.map(({ rolloutId, groupId, index, reward, metrics }): WirePaidReward => {
    return { rollout_id: rolloutId, group_id: groupId, rollout_index: index, reward: reward!, metrics };
  });
  await replaceFile(rewardsPath(path), (write) => write(Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))));
}

/** The rollouts with the rewards in the file of their phase's. Throws ResultsError for a damaged line. */
export async function withPaidRewards(
  rollouts: readonly Trajectory[],
  { path, isPacked }: { readonly path: string; readonly isPacked: boolean },
): Promise<readonly Trajectory[]> {
  const byId = new Map<string, WirePaidReward>();
  for await (const { text, number } of readLines(path, { isPacked })) {
    const parsed = parseWire(PaidRewardSchema, text);
    if ('problem' in parsed) throw new ResultsError(`Line ${number} of ${path} is not a reward of a rollout (${parsed.problem}); delete the file`);
    byId.set(parsed.value.rollout_id, parsed.value);
  }
  return rollouts.map((rollout) => {
    const paid = byId.get(rollout.rolloutId);
    return paid === undefined || rollout.error !== null ? rollout : withReward(rollout, paid.reward, paid.metrics);
  });
}
