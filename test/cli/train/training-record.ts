/** A finished run of 30 steps, or another one by what differs. */
import type { TrainingRecord } from '../../../src/reports/training/training-summary.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';
import type { TrainingOutcome } from '../../../src/trainer/training-session.ts';
import { someConfig } from '../../trainer/some-config.ts';
import { trainingRows } from './training-rows.ts';

export function trainingRecord({
  rows = trainingRows(),
  outcome = {},
}: { readonly rows?: readonly MetricsRow[]; readonly outcome?: Partial<TrainingOutcome> } = {}): TrainingRecord {
  const directory = `${process.cwd()}/outputs/train/nano--0a1b2c3d`;
  return {
    config: {
      name: 'nano',
      steps: 30,
      sft: someConfig().sft,
      optimizer: someConfig().optimizer,
      checkpoint: someConfig().checkpoint,
      environment: {
        id: 'search-r1',
        args: { dataset: 'fact-world' },
        evalArgs: { data_split: 'test' },
      },
      model: { path: 'models/nano-base', initialAdapter: null },
    },
    rows,
    outcome: {
      reason: 'finished',
      message: null,
      step: 30,
      version: 29,
      model: 'nano-0a1b2c3d-v29',
      directory,
      adapter: `${directory}/checkpoints/30/adapter`,
      checkpoint: `${directory}/checkpoints/30`,
      plots: ['reward.svg', 'reward.png', 'overview.svg', 'overview.png'].map((file) => `${directory}/plots/${file}`),
      events: 3,
      failedRollouts: 0,
      resumable: false,
      ...outcome,
    },
  };
}
