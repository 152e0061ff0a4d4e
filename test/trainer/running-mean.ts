/** A credit with a state: every rollout is compared with the running mean of all rewards before it, those of earlier steps included. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { OwnCredit } from '../../src/trainer/credit.ts';

export const runningMean: OwnCredit = {
  module: 'running-mean.ts',
  createCredit() {
    let mean = 0.5;
    const value = (reward: number) => {
      const advantage = reward - mean;
      mean += 0.3 * advantage;
      return advantage;
    };
    return {
      assign: ({ groups }) => ({ advantages: groups.map((group) => group.map(({ reward }) => value(reward))), values: { 'credit/mean': mean } }),
      saveState: (directory) => writeFile(join(directory, 'mean.json'), JSON.stringify(mean)),
      async loadState(directory) {
        mean = JSON.parse(await readFile(join(directory, 'mean.json'), 'utf8')) as number;
      },
    };
  },
};
