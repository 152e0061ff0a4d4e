/**
 * The rewards that a source paid when others had played: `step-000012.propose_rewards.jsonl` next to `step-000012.propose.jsonl`, whose rollouts have none. It is written
 * as a whole when the source returns the step's batch, again after a resume. It is deleted before another rollout of its phase is written, so that its rewards are
 * those of the rollouts on file whenever the process is killed. For readers alone: a resumed run pays again.
 */
import { ResultsError } from '../../core/errors.ts';
import { readLines, replaceFile } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { PaidRewardSchema, type WirePaidReward } from '../../schemas/training-records.ts';
import { type Trajectory, withReward } from '../trajectory.ts';

/** @param path of the phase's rollouts, as they were written or compressed. A thinned file has the rewards of the whole one. */
export function rewardsPath(path: string): string {
  return path.replace(/\.jsonl(?:\.thin)?((?:\.gz)?)$/, '_rewards.jsonl$1');
}

/** @param path of the phase's rollouts */
export async function writePaidRewards(path: string, paid: readonly Trajectory[]): Promise<void> {
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
    const paid = rollout.isUnpaid === true ? byId.get(rollout.rolloutId) : undefined;
    return paid === undefined ? rollout : withReward(rollout, paid.reward, paid.metrics);
  });
}
