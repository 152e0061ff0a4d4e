/** Tries the credit of an environment or a module on made-up rollouts. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Credit, OwnCredit } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';
import { checkedCredit } from './checked-credit.ts';
import { creditBatch } from './credit-batch.ts';
import { logProbsOf, madeUpKinds, madeUpRollouts, onMadeUpRollouts, type TriedRows } from './made-up-rollouts.ts';

/** Throws ConfigError, which names the module and what is wrong. */
export async function tryCredit({ createCredit, module }: OwnCredit, config: TrainingConfig, rows: TriedRows): Promise<void> {
  const open = () => checkedCredit(createCredit, config, module);
  const credit = open();
  await onMadeUpRollouts(async () => {
    const trajectories = madeUpRollouts(config, rows);
    const before = trajectories.map(numbersOf);
    await creditBatch(credit, trajectories, {
      config,
      step: 0,
      pass: async (all) => all.map(({ targets }) => logProbsOf(targets)),
      kinds: madeUpKinds,
    });
    const changed = trajectories.find((trajectory, i) => numbersOf(trajectory) !== before[i]);
    if (changed !== undefined)
      throw new ConfigError(
        `assign of the credit ${module} changed the ids, targets or log-probs of the rollout ${changed.rolloutId}; make a copy, such as Float64Array.from(list), and change that`,
      );
    await tryState(credit, open);
  });
}

/** Saves the state of a credit that has seen a batch, and has another one read it. */
async function tryState(credit: Credit, open: () => Credit): Promise<void> {
  if (credit.saveState === undefined) return;
  const directory = await mkdtemp(join(tmpdir(), 'vf-credit-'));
  try {
    await credit.saveState(directory);
    await open().loadState!(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function numbersOf({ ids, targets, logProbs }: Trajectory): string {
  return JSON.stringify([[...ids], [...targets], [...logProbs!]]);
}
