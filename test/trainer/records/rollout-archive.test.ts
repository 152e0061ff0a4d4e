/** Old rollouts in little space: nothing is lost to a kill, the bound holds, and what a resume needs comes back bit by bit. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keptSteps, readKeptStep } from '../../../src/trainer/records/kept-steps.ts';
import { leastMissed, rolloutFiles } from '../../../src/trainer/records/rollout-archive.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { bits, trajectory } from '../some-trajectories.ts';

let directory: string;
let store: RolloutFiles;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-archive-'));
  store = new RolloutFiles(directory, { asks: true });
});
afterEach(() => rm(directory, { recursive: true }));

const TOKENS = 400;
const ids = Int32Array.from({ length: TOKENS }, (_, i) => (i * 7919) % 50_000);
const targets = Int32Array.from({ length: TOKENS / 2 }, (_, i) => TOKENS / 2 + i);
const asked = (text: string) => {
  const usage = { promptTokens: 5, completionTokens: 2, cachedTokens: null };
  return { role: 'judge', model: 'm', version: null, usage, finish: 'stop' as const, ms: 1, waitMs: 0, attempts: 1, messages: [], text };
};

/** Steps of four rollouts each, whose log-probs cannot be compressed. */
async function record(steps: readonly number[]): Promise<void> {
  for (const number of steps) {
    await using step = await store.open(number);
    for (let i = 0; i < 4; i++) {
      const logProbs = Float64Array.from(targets, (at) => -Math.abs(Math.sin(at * (number + 1) * (i + 1.1))));
      const segments = [{ kind: 'model' as const, text: `step ${number}: a thought about ${i}` }];
      step.add(trajectory(`${number}/${i}`, { ids, promptLength: TOKENS / 2, targets, logProbs, segments }), [asked(`verdict ${number}`)]);
    }
    await step.complete(1);
  }
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const size = () => readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
const kept = async () => (await keptSteps(directory)).map(({ step, kept: state }) => `${step} ${state}`);

async function everything(): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {};
  for (const step of await keptSteps(directory)) {
    const rollouts = await readKeptStep(step);
    found[step.step] = rollouts.map((each) => [each.rolloutId, each.reward, each.segments, bits(each)]);
  }
  return found;
}

describe('archiveRollouts', () => {
  it('compresses the steps that no checkpoint needs, and leaves the others as they are', async () => {
    await record(range(1, 6));
    const [before, bytes] = [await everything(), size()];
    expect(await store.archiveBefore(5, 1e9)).toEqual({ thinned: 0, removed: 0 });
    expect(readdirSync(directory).filter((name) => name.startsWith('step-000004'))).toEqual(['step-000004.asked.jsonl.gz', 'step-000004.jsonl.gz']);
    expect(readdirSync(directory).filter((name) => name.startsWith('step-000005'))).toEqual(['step-000005.asked.jsonl', 'step-000005.jsonl']);
    expect(await everything()).toEqual(before);
    expect(size()).toBeLessThan(0.8 * bytes);
  });

  it('beyond the bound takes the tokens of the oldest first: texts, rewards and counts stay', async () => {
    await record(range(1, 8));
    await store.archiveBefore(7, 1e9);
    const whole = await everything();
    const { thinned, removed } = await store.archiveBefore(7, Math.round(0.75 * size()));
    expect([thinned > 0 && thinned < 6, removed]).toEqual([true, 0]);
    expect(await kept()).toEqual(range(1, 8).map((step) => `${step} ${step <= thinned ? 'thin' : step < 7 ? 'whole' : 'live'}`));
    const now = await everything();
    for (const step of range(1, 8)) {
      const [was, is] = [whole[step] as unknown[][], now[step] as unknown[][]];
      expect(is.map((each) => each.slice(0, 3))).toEqual(was.map((each) => each.slice(0, 3)));
      expect(is.map((each) => each[3])).toEqual(step <= thinned ? was.map(() => ['', '', null, null]) : was.map((each) => each[3]));
    }
  });

  it('the folder fits into any bound that the steps of a resume leave, however small', async () => {
    await record(range(1, 12));
    await store.archiveBefore(11, 1e9);
    const needed = (await rolloutFiles(directory)).filter(({ step }) => step >= 11).reduce((sum, { bytes }) => sum + bytes, 0);
    for (let bound = size(); bound > needed; bound = Math.floor(bound * 0.85)) {
      await store.archiveBefore(11, bound);
      expect(size()).toBeLessThanOrEqual(bound);
      expect((await kept()).slice(-2)).toEqual(['11 live', '12 live']);
    }
    await store.archiveBefore(11, 1);
    expect(await kept()).toEqual(['11 live', '12 live']);
  });

  it('brings back what a run repeats whose checkpoints are gone, and drops what has no tokens any more', async () => {
    await record(range(1, 6));
    const before = await everything();
    await store.archiveBefore(6, 1e9);
    await store.archiveBefore(6, size() - 1);
    expect((await kept())[0]).toBe('1 thin');
    await store.restoreFrom(1);
    expect(await kept()).toEqual(range(2, 6).map((step) => `${step} live`));
    const { 1: _, ...others } = before;
    expect(await everything()).toEqual(others);
    await using again = await store.open(3);
    expect(again.isComplete).toBe(true);
  });

  it('a process that is killed at any moment loses no step, and the next one finishes the work', { timeout: 60_000 }, async () => {
    await record(range(1, 40));
    const before = await everything();
    let kills = 0;
    for (const delay of [0, 5, 20, 60]) {
      const child = archiver(directory);
      const ended = once(child, 'exit');
      await once(child.stdout!, 'data');
      const timer = setTimeout(() => child.kill('SIGKILL'), delay);
      const [code] = (await ended) as [number | null];
      clearTimeout(timer);
      expect(await everything()).toEqual(before);
      if (code === 0) break;
      kills += 1;
    }
    expect(kills).toBeGreaterThan(0);
    await store.archiveBefore(40, 1e9);
    expect(readdirSync(directory).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect((await kept()).filter((each) => each.endsWith('live'))).toEqual(['40 live']);
  });

  it('of a file that is there twice after a kill, the one that was written first counts', async () => {
    await record([1, 2]);
    const text = readFileSync(join(directory, 'step-000001.jsonl'));
    await store.archiveBefore(2, 1e9);
    writeFileSync(join(directory, 'step-000001.jsonl'), text);
    expect(await kept()).toEqual(['1 live', '2 live']);
    await store.archiveBefore(2, 1e9);
    expect(await kept()).toEqual(['1 whole', '2 live']);
  });

  it('a compressed file that was cut off is named, and the others can be read', async () => {
    await record([1, 2, 3]);
    await store.archiveBefore(3, 1e9);
    const path = join(directory, 'step-000001.jsonl.gz');
    writeFileSync(path, readFileSync(path).subarray(0, 100));
    const [first, second] = await keptSteps(directory);
    await expect(readKeptStep(first!)).rejects.toThrow(/step-000001\.jsonl\.gz is damaged and cannot be unpacked \(unexpected end of file\)/);
    expect(await readKeptStep(second!)).toHaveLength(4);
  });
});

describe('leastMissed', () => {
  it('keeps the first step to the end, and gaps grow with age', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 300 }), fc.integer({ min: 1, max: 20 }), (count, most) => {
        const steps = range(1, count);
        while (steps.length > most) steps.splice(leastMissed(steps, count), 1);
        expect(steps[0]).toBe(1);
        const gaps = steps.slice(1).map((step, i) => step - steps[i]!);
        // The newest half of the kept steps lies closer together than the oldest half.
        const half = Math.floor(gaps.length / 2);
        const mean = (some: readonly number[]) => some.reduce((a, b) => a + b, 0) / Math.max(1, some.length);
        expect(mean(gaps.slice(half))).toBeLessThanOrEqual(half === 0 ? Infinity : mean(gaps.slice(0, half)));
      }),
    );
  });
});

/** Archives in a process of its own; says so once it begins. */
function archiver(folder: string): ChildProcess {
  const module = JSON.stringify(new URL('../../../src/trainer/records/rollout-files.ts', import.meta.url).href);
  const code = `const { RolloutFiles } = await import(${module}); console.log('ready'); await new RolloutFiles(${JSON.stringify(folder)}).archiveBefore(40, 1e9);`;
  return spawn(process.execPath, ['--conditions=vf-search-source', '--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
}
