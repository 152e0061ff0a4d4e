/** A fault, or a kill, at every publish, every checkpoint and every evaluation of a run: resumed, it ends with the weights, metrics and evaluations of a run that had none. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { smallCommand } from '../small-process.ts';
import { UnigramBackend } from '../unigram-backend.ts';

const CONFIG = { steps: 3, evaluation: { every: 1, examples: 2 }, checkpoint: { every: 1, keep: 2 } };
const FAIL_AT = join(import.meta.dirname, '../../cli/train/fail-at.mjs');

let root: string;
let whole: { readonly adapter: Buffer; readonly rows: Record<string, unknown>[] };
const newPath = async () => newRun(await mkdtemp(join(root, 'run-')));
const train = (path: string, options: Partial<SmallRunOptions> = {}) =>
  trainSmall(path, { backend: async () => new UnigramBackend(), config: CONFIG, ...options });

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'vf-faults-'));
  const path = await newPath();
  const outcome = await train(path);
  whole = { adapter: await finalAdapter(outcome, 'unigram.json'), rows: await rowsOf(path) };
});
afterAll(() => rm(root, { recursive: true }));

async function expectWhole(path: string): Promise<void> {
  const outcome = await train(path);
  expect(outcome).toMatchObject({ reason: 'finished', step: 3, version: 3 });
  expect(await finalAdapter(outcome, 'unigram.json')).toEqual(whole.adapter);
  expect(await rowsOf(path)).toEqual(whole.rows);
}

type Place = 'publish' | 'checkpoint' | 'evaluation';

/** Options of a run that fails at the n-th such moment, and whether it came. */
function failing(place: Place, n: number): { readonly options: Partial<SmallRunOptions>; readonly hasFailed: () => boolean } {
  let seen = 0;
  let phase = '';
  const strike = () => {
    seen += 1;
    if (seen === n) throw new Error('a fault');
  };
  const options: Partial<SmallRunOptions> = {
    observer: { onPhase: (name) => void (phase = name) },
    backend: async () =>
      new UnigramBackend((call) => (place === 'checkpoint' && phase === 'checkpoint' && call === 'saveState' ? strike() : undefined)),
    onTurn: () => (place === 'evaluation' && phase === 'evaluation' ? strike() : undefined),
    session: (made) => {
      if (place === 'publish') made.publisher.before = async () => strike();
      return made;
    },
  };
  return { options, hasFailed: () => seen >= n };
}

describe('a fault at every moment of a kind', () => {
  it.each([
    ['publish', 3],
    ['checkpoint', 3],
    ['evaluation', 8],
  ] as const)('costs a run nothing once it is resumed: %s', { timeout: 60_000 }, async (place, least) => {
    let faults = 0;
    for (let n = 1; ; n++) {
      const path = await newPath();
      const { options, hasFailed } = failing(place, n);
      await train(path, options).catch(() => {});
      if (!hasFailed()) break;
      faults += 1;
      await expectWhole(path);
    }
    expect(faults).toBeGreaterThanOrEqual(least);
  });
});

describe('kill -9 at every moment of a kind', { timeout: 300_000 }, () => {
  const PLACES: Readonly<Record<Place, string>> = {
    publish: '^mkdir .*/adapters/',
    checkpoint: '^rename .*/checkpoints/step-\\d+\\.\\d+\\.tmp',
    evaluation: '^open .*/evaluations/step-\\d+\\.jsonl',
  };

  /** Kills a process of the run at the n-th such moment. False if it ended before. */
  async function kills(path: string, place: Place, n: number): Promise<boolean> {
    const [node, ...rest] = smallCommand(path, { config: CONFIG });
    const env = { ...process.env, FAIL_AT: JSON.stringify({ match: PLACES[place], from: n, how: 'kill' }) };
    const child = spawn(node, ['--import', FAIL_AT, ...rest], { stdio: 'ignore', env });
    const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    return signal === 'SIGKILL';
  }

  it.each(['publish', 'checkpoint', 'evaluation'] as const)('costs a run nothing once it is resumed, the second one: %s', async (place) => {
    const path = await newPath();
    expect(await kills(path, place, 2)).toBe(true);
    await expectWhole(path);
  });

  it.each([
    ['publish', 3],
    ['checkpoint', 3],
    ['evaluation', 4],
  ] as const)('costs a run nothing once it is resumed, every one: %s', { tags: 'long' }, async (place, least) => {
    let n = 1;
    for (; ; n++) {
      const path = await newPath();
      if (!(await kills(path, place, n))) break;
      await expectWhole(path);
    }
    expect(n - 1).toBeGreaterThanOrEqual(least);
  });

  it.each(['publish', 'checkpoint', 'evaluation'] as const)(
    'costs one run nothing that is killed at each of its processes: %s',
    { tags: 'long' },
    async (place) => {
      const path = await newPath();
      let count = 0;
      // Each process passes one such moment more than the one before it.
      while (count < 12 && (await kills(path, place, 1 + (count % 3)))) count += 1;
      expect(count).toBeGreaterThan(1);
      await expectWhole(path);
    },
  );
});
