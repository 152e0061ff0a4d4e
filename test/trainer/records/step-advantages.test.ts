import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Advantage } from '../../../src/trainer/credit.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { advantagesPath, writeAdvantages } from '../../../src/trainer/records/step-advantages.ts';
import { passOver } from '../credit/credit-cases.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-advantages-'));
afterAll(() => rmSync(root, { recursive: true }));

const TURNS = { ids: Int32Array.of(1, 2, 3, 4, 5, 6), targets: Int32Array.of(2, 3, 5), logProbs: Float64Array.of(-1, -1, -1) };

/** Two rollouts of a row with two turns of two tokens and one. */
const batchOf = (advantages: readonly [Advantage, Advantage], changes: object = {}, config: Record<string, unknown> = {}) =>
  creditBatch(
    { assign: () => ({ advantages: [advantages] }) },
    [0, 1].map((index) => trajectory(`1/${index}`, { ...TURNS, ...(index === 1 ? changes : {}) })),
    { config: someConfig(config), step: 1, pass: passOver() },
  );

async function written(...args: Parameters<typeof batchOf>): Promise<unknown[]> {
  const path = join(root, 'step-000001_advantages.jsonl');
  await writeAdvantages(path, await batchOf(...args));
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as unknown);
}

const line = (index: number, more: object) => ({ rollout_id: `1/${index}`, group_id: '1', rollout_index: index, ...more });

describe('writeAdvantages', () => {
  it('has one advantage of each rollout, and one of each turn where they differ', async () => {
    expect(await written([0.1, [0.1, -0.2]])).toEqual([line(0, { advantage: 0.1 }), line(1, { advantage: 0, turn_advantages: [0.1, -0.2] })]);
    expect(await written([[0.1, 0.1], Float64Array.of(1, 2, 3)])).toEqual([
      line(0, { advantage: 0.1 }),
      line(1, { advantage: 2, turn_advantages: [1.5, 3] }),
    ]);
  });

  it('leaves out what has no part in the loss: rollouts, turns, and those that are masked', async () => {
    expect(await written([null, [null, -0.2]])).toEqual([line(1, { advantage: -0.2, turn_advantages: [null, -0.2] })]);
    expect(await written([0.5, 0.5], { isTruncated: true }, { rollouts: { truncated: 'mask' } })).toEqual([line(0, { advantage: 0.5 })]);
  });

  it('has them with their sign and weight in the loss', async () => {
    const negated = { algorithm: { negate_advantages: true } };
    expect(await written([0.5, 1], { staleWeight: 0.25 }, negated)).toEqual([line(0, { advantage: -0.5 }), line(1, { advantage: -0.25 })]);
  });
});

describe('RolloutFiles.credit', () => {
  it('keeps them next to the rollouts of the step, compressed with them, and deletes them before others are played', async () => {
    const directory = join(root, 'rollouts');
    const files = new RolloutFiles(directory);
    const credited = await batchOf([1, -1]);
    await files.credit(credited, 1);
    const played = async (step: number) => {
      await using store = await files.open(step);
      store.add(trajectory('1/0'));
      await store.complete(1);
    };
    await played(1);
    await files.credit(credited, 1);
    expect(readdirSync(directory).toSorted()).toEqual(['step-000001.jsonl', 'step-000001_advantages.jsonl']);
    await files.archiveBefore(2, Infinity);
    expect(readdirSync(directory).toSorted()).toEqual(['step-000001.jsonl.gz', 'step-000001_advantages.jsonl.gz']);
    await files.restoreFrom(1);
    await using again = await files.open(1);
    expect(again.isComplete).toBe(true);
    expect(readdirSync(directory)).toContain('step-000001_advantages.jsonl');
    await again[Symbol.asyncDispose]();
    await files.discard(1);
    expect(readdirSync(directory)).toEqual([]);
    const second = await files.open(2);
    second.add(trajectory('1/0'));
    await second[Symbol.asyncDispose]();
    await files.credit(credited, 2);
    await (await files.open(2))[Symbol.asyncDispose]();
    expect(readdirSync(directory)).toEqual(['step-000002.jsonl']);
  });
});

describe('advantagesPath', () => {
  it.each([
    ['rollouts/step-000012.jsonl', 'rollouts/step-000012_advantages.jsonl'],
    ['rollouts/step-000012.refill-1.jsonl', 'rollouts/step-000012_advantages.jsonl'],
    ['step-000012.jsonl.gz', 'step-000012_advantages.jsonl.gz'],
    ['step-000012.jsonl.thin.gz', 'step-000012_advantages.jsonl.gz'],
  ])('of %s is %s', (of, path) => {
    expect(advantagesPath(of)).toBe(path);
  });
});
