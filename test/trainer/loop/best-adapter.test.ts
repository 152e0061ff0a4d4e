import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GradientError, TrainingError, VfError } from '../../../src/core/errors.ts';
import { BestAdapter, type BestAdapterParts } from '../../../src/trainer/loop/best-adapter.ts';
import { readBest } from '../../../src/trainer/records/best-version.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';
import { someConfig } from '../some-config.ts';

let folder: string;
let said: string[];
let rows: MetricsRow[];
let failure: Error | null;
/** Steps whose rows metrics.jsonl has lost. */
let lost: number[];
/** Of step 2. Without its folder it cannot be copied. */
let hasCheckpoint: boolean;
const checkpoint = () => join(folder, 'checkpoint');
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-best-'));
  said = [];
  rows = [];
  failure = null;
  lost = [];
  hasCheckpoint = false;
});
afterEach(() => rmSync(folder, { recursive: true }));

const FULL = new VfError('Could not write it', { cause: Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }) });
const evaluated = (step: number, value: number): MetricsRow => ({ kind: 'evaluation', step, values: { reward_mean: value, policy_version: step } });
const kept = () => readBest(join(folder, 'best'));

function opened(evaluationSetup?: number, checkpointing: object = {}): BestAdapter {
  const save = async (directory: string) => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'adapter_config.json'), '{}');
    if (failure !== null) throw failure;
  };
  const checkpoints = {
    async *whole() {
      if (hasCheckpoint) yield { version: 2, adapterDirectory: checkpoint() };
    },
  };
  const parts = {
    run: {
      config: someConfig({ checkpoint: checkpointing }),
      directory: { paths: { best: join(folder, 'best') } },
      evaluationSetup,
    },
    records: {
      report: ({ message }: { message: string }) => said.push(message),
      rows,
      missingRows: () => lost,
      checkpoints,
    },
    session: { backend: { saveAdapter: save } },
    isValidated: false,
  };
  return new BestAdapter(parts as unknown as BestAdapterParts);
}

async function offered(best: BestAdapter, step: number, value: number): Promise<void> {
  await best.offer({ metric: 'reward_mean', step, version: step, value });
  rows.push(evaluated(step, value));
}

describe('BestAdapter', () => {
  it.each([
    ['an error of the engine', FULL],
    ['an error of the worker', new GradientError('No space left on device', { code: 'internal' })],
  ])(
    'says that the disk is full, leaves nothing, and stops the run if it cannot take the adapter from its checkpoint at the end: %s',
    async (_, full) => {
      const best = opened();
      await offered(best, 1, 0.1);
      failure = full;
      await offered(best, 2, 0.5);
      expect(said).toEqual([
        expect.stringMatching(/^Cannot write the best adapter .*best: the disk is full; free some space\. It is tried again at the end/),
      ]);
      expect(readdirSync(folder)).toEqual(['best']);
      expect(kept()).toMatchObject({ step: 1 });
      hasCheckpoint = true;
      await expect(best.settle()).rejects.toThrow(TrainingError);
      expect(readdirSync(folder)).toEqual(['best']);
      mkdirSync(checkpoint());
      await opened().review();
      expect(kept()).toMatchObject({ step: 2, value: 0.5 });
      expect(said.at(-1)).toBe('best/ lacked the best adapter: it now holds the adapter of step 2');
    },
  );

  it('keeps the adapter with the lowest value of a metric, and chooses again where another metric is named', async () => {
    const measured = async (best: BestAdapter, step: number, [em, turns]: readonly [number, number], asked: 'em' | 'turns') => {
      const values = { reward_mean: 1, 'rubric/em': em, turns_mean: turns, policy_version: step };
      const figure = asked === 'em' ? { metric: 'rubric/em', value: em } : { metric: 'turns_mean', value: turns, lowerIsBetter: true as const };
      await best.offer({ step, version: step, ...figure });
      rows.push({ kind: 'evaluation', step, values });
    };
    const fewest = opened(undefined, { best: 'turns_mean', greater_is_better: false });
    await measured(fewest, 0, [0.1, 5], 'turns');
    expect(kept()).toBeNull();
    await measured(fewest, 1, [0.2, 5], 'turns');
    expect(kept()).toBeNull();
    for (const [step, found] of [
      [2, [0.2, 3]],
      [3, [0.3, 4]],
      [4, [0.4, 3]],
    ] as const)
      await measured(fewest, step, found, 'turns');
    expect(kept()).toMatchObject({ metric: 'turns_mean', lowerIsBetter: true, step: 2, value: 3 });
    await fewest.offer({ metric: 'reward_mean', step: 5, version: 5, value: 99 });
    expect(kept()).toMatchObject({ step: 2 });
    hasCheckpoint = true;
    mkdirSync(checkpoint());
    const highest = opened(undefined, { best: 'em' });
    await highest.review();
    expect([kept(), said]).toMatchObject([
      { metric: 'rubric/em', step: 2, value: 0.2 },
      ['best/ lacked the best adapter: it now holds the adapter of step 2'],
    ]);
    await measured(highest, 5, [0.15, 1], 'em');
    expect(kept()).toMatchObject({ step: 2 });
    await measured(highest, 6, [0.5, 9], 'em');
    expect(kept()).toMatchObject({ metric: 'rubric/em', step: 6, value: 0.5 });
    expect(kept()).not.toHaveProperty('lowerIsBetter');
  });

  it('goes on without the best adapter, with its alarm alone, where no checkpoint has it any more', async () => {
    const best = opened();
    failure = FULL;
    await offered(best, 2, 0.5);
    await best.settle();
    expect([kept(), said.length]).toEqual([null, 1]);
  });

  it('keeps nothing better than a start that was lost with metrics.jsonl; a run that measures no start keeps its best', async () => {
    const best = opened();
    lost = [1];
    await offered(best, 2, 0.5);
    expect(kept()).toBeNull();
    lost = [];
    await offered(best, 3, 0.4);
    expect(kept()).toMatchObject({ step: 3 });
  });

  it('has the adapter back that a kill left under its old name, where no checkpoint has it', async () => {
    await offered(opened(), 1, 0.5);
    renameSync(join(folder, 'best'), join(folder, 'best.old.tmp'));
    await opened().review();
    expect([readdirSync(folder), kept()]).toMatchObject([['best'], { step: 1, value: 0.5 }]);
    expect(said).toEqual([]);
  });

  it('keeps the best of another setup of evaluations until the first version that is measured with this one', async () => {
    const best = (step: number, value: number, setup: number) => {
      const chosen = opened(setup).offer({ metric: 'reward_mean', step, version: step, value });
      rows.push({ ...evaluated(step, value), values: { ...evaluated(step, value).values, evaluation_setup: setup } });
      return chosen;
    };
    await best(1, 0.5, 1);
    await opened(2).review();
    expect([kept()?.step, said]).toEqual([1, []]);
    await best(2, 0.1, 2);
    expect(kept()).toMatchObject({ step: 2, value: 0.1 });
  });

  it('takes a damaged adapter from the checkpoint of its version, and keeps it with an alarm where no checkpoint has that version', async () => {
    await offered(opened(), 2, 0.5);
    const file = join(folder, 'best/adapter/adapter_config.json');
    writeFileSync(file, '[]');
    await opened().review();
    const what = 'best/ held a damaged adapter: adapter/adapter_config.json changed after it was written';
    expect(said.splice(0)).toEqual([
      expect.stringContaining(`${what}, and no checkpoint has step 2 any more. Restore ${join(folder, 'best')} from a copy`),
    ]);
    expect(readFileSync(file, 'utf8')).toBe('[]');
    hasCheckpoint = true;
    mkdirSync(checkpoint());
    writeFileSync(join(checkpoint(), 'adapter_config.json'), '{}');
    await opened().review();
    expect(said.splice(0)).toEqual([`${what}. It was taken from the checkpoint of step 2`]);
    expect(readFileSync(file, 'utf8')).toBe('{}');
    await opened().review();
    expect(said).toEqual([]);
  });

  it('leaves the loss of the backend to the run', async () => {
    failure = new GradientError('gone', { code: 'lost' });
    await expect(offered(opened(), 1, 0.5)).rejects.toThrow('gone');
  });
});
