/** TensorBoard's and W&B's own readers find in the curves of a run what metrics.jsonl holds, value by value. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { joinObservers } from '../../../src/trainer/training-observer.ts';
import { newRun, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';
import { readersPython, type ReadEvents, skipReason, TensorboardReader, wandbSync } from './curve-readers.ts';
import { CONFIG, curveLogs, inFloat32, recordedPoints, SETTINGS } from './curves-run.ts';
import type { ReadPoint } from './read-curves.ts';

it.runIf(process.env['VF_REQUIRE_CURVE_READERS'] === '1')('has a Python with the readers', () => {
  expect(readersPython).not.toBeNull();
});

let parent: string;
let path: string;
beforeEach(async () => {
  parent = mkdtempSync(join(tmpdir(), 'vf-readers-'));
  path = await newRun(parent);
});
afterEach(() => rmSync(parent, { recursive: true }));

/** One process's life, to step `until`; a killed one does not close its logs. */
async function live({ until = Infinity, isKilled = false }: { readonly until?: number; readonly isKilled?: boolean } = {}): Promise<void> {
  const { logs } = curveLogs(path);
  const stop = new AbortController();
  const observer = joinObservers([...logs, { onStep: ({ step }) => void (step >= until && stop.abort()) }]);
  const { reason } = await trainSmall(path, { observer, signal: stop.signal, backend: async () => new UnigramBackend() });
  if (!isKilled) for (const log of logs) log.close({ isFinished: reason === 'finished' });
}

/** In the order of their tags, as TensorBoard has them. */
const byTag = (points: readonly ReadPoint[]) => points.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
const pointsOf = ({ scalars }: ReadEvents) =>
  byTag(Object.entries(scalars).flatMap(([tag, events]) => events.map(([seconds, step, value]): ReadPoint => [tag, step, value, seconds])));
const expected = () => byTag(inFloat32(recordedPoints(path)));

describe.skipIf(readersPython === null)(`TensorBoard${skipReason}`, { timeout: 60_000 }, () => {
  it('reads every value, while the run goes on and after a resume, with the settings and the configuration', async () => {
    await live({ until: 5 });
    await using reader = new TensorboardReader(join(path, 'tensorboard'));
    const interrupted = await reader.read();
    expect(pointsOf(interrupted)).toEqual(expected());
    expect(Math.max(...interrupted.scalars['train/loss']!.map(([, step]) => step))).toBe(5);
    expect(interrupted.hyperparameters).toEqual({
      steps: 6,
      'optimizer.learning_rate': 1e-5,
      'environment.id': 'x',
      'environment.tags': '["a","b"]',
      'deep.on': true,
    });
    expect(interrupted.config.replaceAll(/^ {4}/gm, '')).toBe(CONFIG);
    await live();
    // The same process reads on, as a TensorBoard that was open all the time.
    expect(pointsOf(await reader.read())).toEqual(expected());
  });

  it('reads what was written before a kill in the middle of a record, and reads on after the resume', async () => {
    await live({ until: 5, isKilled: true });
    const file = join(path, 'tensorboard', readdirSync(join(path, 'tensorboard'))[0]!);
    truncateSync(file, readFileSync(file).length - 5);
    await using reader = new TensorboardReader(join(path, 'tensorboard'));
    expect((await reader.read()).scalars['train/loss']!.map(([, step]) => step)).toEqual([1, 2, 3, 4]);
    await live();
    expect(pointsOf(await reader.read())).toEqual(expected());
  });
});

describe.skipIf(readersPython === null)(`wandb sync${skipReason}`, { timeout: 120_000 }, () => {
  it('uploads every value of a run, the part before a kill included, with its settings', async () => {
    await live({ until: 5, isKilled: true });
    const folder = join(path, 'wandb');
    const before = recordedPoints(path);
    const file = join(folder, readdirSync(folder)[0]!, 'run-00112233.wandb');
    truncateSync(file, readFileSync(file).length - 5);
    await live();
    const { runs, said } = await wandbSync([folder], parent);
    expect(said).toMatch(/\[p\/00112233-2\] Finished syncing /);
    // Of the killed one it misses the torn record alone.
    expect(said).toContain('the file ends with an incomplete record');
    const [killed, whole] = [runs.get('00112233')!, runs.get('00112233-2')!];
    const points = recordedPoints(path);
    expect(historyPoints(whole.history)).toEqual(byTag(points));
    expect(whole.history.map((line) => line['_step'])).toEqual(whole.history.map((_, i) => i));
    expect(whole.exitCode).toBe(0);
    expect(whole.summary).toMatchObject(Object.fromEntries(points.map(([tag, , value]) => [tag, value])));
    expect(historyPoints(killed.history)).toEqual(byTag(before.filter(([, step]) => step < 5)));
    expect(killed.exitCode).not.toBe(0);
    expect(whole.variables).toMatchObject({ project: 'p', groupName: 'run--x', displayName: 'run-2', jobType: 'train', tags: ['tag'], entity: null });
    const config = JSON.parse(String(whole.variables['config'])) as Record<string, { readonly value: unknown }>;
    for (const [key, value] of Object.entries(SETTINGS)) expect(config[key]!.value).toEqual(value);
  });
});

function historyPoints(history: readonly Readonly<Record<string, number>>[]): ReadPoint[] {
  return byTag(
    history.flatMap((line) =>
      Object.entries(line).flatMap(([tag, value]): ReadPoint[] => (tag.includes('/') ? [[tag, line['step']!, value, line['_timestamp']!]] : [])),
    ),
  );
}
