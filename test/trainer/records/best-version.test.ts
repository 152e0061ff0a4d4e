import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bestRecord, type BestVersion, isBetter, readBest } from '../../../src/trainer/records/best-version.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const reward: BestVersion = { metric: 'reward_mean', step: 10, version: 9, value: 0.5 };
const em: BestVersion = { metric: 'rubric/em', step: 10, version: 9, value: 0.5 };
const turns: BestVersion = { ...em, metric: 'turns_mean', lowerIsBetter: true };
const loss: BestVersion = { metric: 'validation_nll', step: 4, version: 4, value: 0.5 };

describe('isBetter', () => {
  it('wants a higher reward, a lower loss, and a reward rather than a loss; the first of two that are equal stays', () => {
    expect(isBetter(reward, null)).toBe(true);
    expect([0.6, 0.5, 0.4].map((value) => isBetter({ ...reward, value }, reward))).toEqual([true, false, false]);
    expect([0.6, 0.5, 0.4].map((value) => isBetter({ ...loss, value }, loss))).toEqual([false, false, true]);
    expect([0.6, 0.5, 0.4].map((value) => isBetter({ ...em, value }, em))).toEqual([true, false, false]);
    expect([0.6, 0.5, 0.4].map((value) => isBetter({ ...turns, value }, turns))).toEqual([false, false, true]);
    expect(isBetter(em, { ...loss, value: 0.01 })).toBe(true);
    expect(isBetter(reward, { ...loss, value: 0.01 })).toBe(true);
    expect(isBetter(loss, { ...reward, value: 0.01 })).toBe(false);
  });
});

describe('readBest', () => {
  it.each([reward, loss, em, turns])('reads what bestRecord writes: $metric', (best) => {
    using folder = new TemporaryFolder();
    const { name, text } = bestRecord(best, []);
    folder.write(name, text);
    expect(readBest(folder.path)).toBeNull();
    mkdirSync(join(folder.path, 'adapter'));
    expect(readBest(folder.path)).toEqual({ ...best, adapter: join(folder.path, 'adapter') });
  });

  it('is null for a folder that says nothing of its adapter', () => {
    using folder = new TemporaryFolder();
    mkdirSync(join(folder.path, 'adapter'));
    for (const text of ['', '{"step": "5", "reward_mean": 1}', '{"step": 5, "reward_mean": null}']) {
      folder.write('evaluation.json', text);
      expect(readBest(folder.path)).toBeNull();
    }
  });
});
