/** A source of made-up rollouts with one to three branches, put on file one by one: what nobody can sample, since agents are not in these tests. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../src/core/random.ts';
import type { CreateSource } from '../../src/trainer/trajectory-source.ts';
import type { Trajectory } from '../../src/trainer/trajectory.ts';
import { branched, type MadeUpBranch } from './branched-trajectory.ts';

export interface BranchedSourceOptions {
  /** Between two rollouts, so that there are moments to be killed in. @default 0 */
  readonly slowMs?: number;
  /** Ids are below it. @default 200 */
  readonly vocabulary?: number;
  /** Branches have roles and rewards of their own. @default false */
  readonly hasOwnRewards?: boolean;
}

/** The same rollout for the same names, whoever asks. */
function madeUpRollout(step: number, group: number, index: number, { vocabulary = 200, hasOwnRewards = false }: BranchedSourceOptions): Trajectory {
  const random = Random.fromSeed(7).fork(`${step} ${group} ${index}`);
  const branches = Array.from({ length: 1 + random.integer(3) }, (_, i): MadeUpBranch => ({
    sampled: Array.from({ length: 1 + random.integer(5) }, () => -4 - random.integer(1000) / 500),
    prompt: 2 + random.integer(4),
    parent: i === 0 ? null : random.integer(i),
    ...(hasOwnRewards ? { role: i === 0 ? 'lead' : 'helper', reward: random.integer(4) } : {}),
  }));
  const made = branched(`${step}-${group}/${index}`, branches, { reward: random.integer(2), policy: { model: 'made-up', version: step - 1 } });
  return { ...made, ids: made.ids.map(() => random.integer(vocabulary)) };
}

/** Three groups of four rollouts a step. */
export function branchedSource(options: BranchedSourceOptions = {}): CreateSource {
  return ({ store }) => ({
    async take(step) {
      await using record = await store.open(step);
      if (record.isComplete) return { trajectories: record.recorded };
      const known = new Set(record.recorded.map(({ rolloutId }) => rolloutId));
      for (let i = 0; i < 12; i++) {
        const made = madeUpRollout(step, Math.floor(i / 4), i % 4, options);
        if (known.has(made.rolloutId)) continue;
        if (options.slowMs !== undefined && options.slowMs > 0) await sleep(options.slowMs);
        record.add(made);
      }
      await record.complete(1);
      return { trajectories: record.recorded };
    },
    needsPolicy: () => false,
    async saveState() {},
    async loadState() {},
  });
}
