/** Curves of whole runs, through interruptions: both formats hold what metrics.jsonl holds. */
import { mkdirSync, readdirSync, statSync, writeFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GradientError } from '../../../src/core/errors.ts';
import { openTensorboardFile } from '../../../src/trainer/curves/tensorboard-file.ts';
import { openWandbFile } from '../../../src/trainer/curves/wandb-file.ts';
import { joinObservers, type RecordedMetricsRow } from '../../../src/trainer/training-observer.ts';
import { newRun, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';
import { curveLogs, inFloat32, recordedPoints, tensorboardOptions, wandbOptions } from './curves-run.ts';
import { readEventFile, readWandbRuns } from './read-curves.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-curves-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

/** One process's life with both logs, to step `until`; checkpoints are at 2, 4 and 6. */
async function live({
  until = Infinity,
  backend = async () => new UnigramBackend(),
}: { until?: number; backend?: () => Promise<UnigramBackend> } = {}) {
  const { logs, failures } = curveLogs(path);
  const stop = new AbortController();
  const onStep = ({ step }: { readonly step: number }) => step >= until && stop.abort();
  const observer = joinObservers([...logs, { onStep: (row) => void onStep(row) }]);
  const { reason } = await trainSmall(path, { observer, signal: stop.signal, backend });
  for (const log of logs) log.close({ isFinished: reason === 'finished' });
  return { reason, failures };
}

const eventFile = () => readEventFile(join(path, 'tensorboard'));
const wandbRuns = () => readWandbRuns(join(path, 'wandb'));

describe('the curves of a run', () => {
  it('are the rows of metrics.jsonl, evaluations included', async () => {
    await live();
    const points = recordedPoints(path);
    expect(new Set(points.map(([tag]) => tag.split('/')[0]))).toEqual(new Set(['train', 'eval']));
    expect(eventFile()).toEqual(inFloat32(points));
    expect(wandbRuns()).toEqual([{ id: '00112233', project: 'p', group: 'run--x', name: 'run', exitCode: 0, points }]);
  });

  it('hold each step once after a resume that measures some again', async () => {
    expect((await live({ until: 5 })).reason).toBe('interrupted');
    const [before] = wandbRuns();
    expect(Math.max(...before!.points.map(([, step]) => step))).toBe(5);
    expect((await live()).reason).toBe('finished');
    const points = recordedPoints(path);
    expect(eventFile()).toEqual(inFloat32(points));
    const [first, second] = wandbRuns();
    expect(first).toEqual({ ...before, exitCode: 1 });
    expect(second).toEqual({ id: '00112233-2', project: 'p', group: 'run--x', name: 'run-2', exitCode: 0, points });
  });

  it('hold each step once after a lost backend took the run back to its checkpoint', async () => {
    let calls = 0;
    const backend = async () =>
      new UnigramBackend((call) => {
        if (call === 'optimStep' && ++calls === 7) throw new GradientError('The worker is gone', { code: 'lost' });
      });
    expect((await live({ backend })).reason).toBe('finished');
    const points = recordedPoints(path);
    expect(eventFile()).toEqual(inFloat32(points));
    expect(wandbRuns().map(({ exitCode }) => exitCode)).toEqual([1, 0]);
    expect(wandbRuns()[1]!.points).toEqual(points);
  });

  it('may be asked for later: a finished run that is opened again has them from its first step', async () => {
    await trainSmall(path, { backend: async () => new UnigramBackend() });
    await live();
    expect(eventFile()).toEqual(inFloat32(recordedPoints(path)));
    expect(wandbRuns()[0]!.points).toEqual(recordedPoints(path));
  });

  it('do not stop a run if they cannot be written', async () => {
    for (const name of ['tensorboard', 'wandb']) writeFileSync(join(path, name), 'in the way');
    const { reason, failures } = await live();
    expect(reason).toBe('finished');
    expect(failures).toHaveLength(2);
    for (const failure of failures) expect(failure).toMatch(/No more curves for (TensorBoard|W&B); metrics\.jsonl has every value/);
  });
});

const values = fc.dictionary(fc.string({ minLength: 1, maxLength: 600 }), fc.double({ noNaN: true, noDefaultInfinity: true }), { maxKeys: 90 });
const rows = fc.array(
  fc.record({ kind: fc.constantFrom('step' as const, 'evaluation' as const), step: fc.nat(), values, time: fc.constant('2026-01-02T03:04:05.678Z') }),
  { maxLength: 12 },
);
/** What any of the rows must read as. */
const pointsOf = (all: readonly RecordedMetricsRow[]) =>
  all.flatMap(({ kind, step, time, values: measured }) =>
    Object.entries(measured).map(([name, value]): [string, number, number, number] => [
      `${kind === 'step' ? 'train' : 'eval'}/${name}`,
      step,
      // JSON has no negative zero.
      value! + 0,
      Date.parse(time) / 1000,
    ]),
  );

describe('both formats', () => {
  it('hold any rows that are appended, across the blocks of a log', () => {
    let runs = 0;
    fc.assert(
      fc.property(rows, fc.nat(12), (all, first) => {
        const own = join(path, String(runs++));
        mkdirSync(own);
        const [before, after] = [all.slice(0, first), all.slice(first)];
        const files = [openTensorboardFile({ ...tensorboardOptions(own), rows: before }), openWandbFile({ ...wandbOptions(own), rows: before })];
        for (const file of files) {
          for (const row of after) file.append(row);
          file.close(true);
        }
        expect(readEventFile(join(own, 'tensorboard')).map(([tag, step, value, seconds]) => [tag, step, value + 0, seconds])).toEqual(
          inFloat32(pointsOf(all)),
        );
        expect(readWandbRuns(join(own, 'wandb'))[0]!.points).toEqual(pointsOf(all));
      }),
      { numRuns: 60 },
    );
  });

  it('hold a row wherever in a block of W&B it begins', () => {
    const time = '2026-01-02T03:04:05.678Z';
    const all: RecordedMetricsRow[] = [1, 2].map((step) => ({ kind: 'step', step, time, values: { loss: step } }));
    const sizes = new Set<number>();
    const sizeWith = (pad: number, own: string) => {
      const file = openWandbFile({ ...wandbOptions(own), settings: { pad: 'x'.repeat(pad) }, rows: [] });
      const [name] = readdirSync(join(own, 'wandb'), { recursive: true, encoding: 'utf8' }).filter((each) => each.endsWith('.wandb'));
      const { size } = statSync(join(own, 'wandb', name!));
      file.close(false);
      return size;
    };
    const whole = 30_000 + 32_768 - sizeWith(30_000, join(path, 'measured'));
    for (let pad = whole - 12; pad <= whole + 3; pad++) {
      const own = join(path, String(pad));
      sizes.add(32_768 - sizeWith(pad, join(own, 'empty')));
      openWandbFile({ ...wandbOptions(own), settings: { pad: 'x'.repeat(pad) }, rows: all }).close(true);
      expect(readWandbRuns(join(own, 'wandb'))[0]!.points).toEqual(pointsOf(all));
    }
    // The room in the block, where a frame needs seven bytes before its data.
    for (const room of [0, 1, 6, 7, 8]) expect(sizes).toContain(room);
  });

  it('can be begun twice within a second', () => {
    const now = new Date('2026-01-02T03:04:05Z');
    const names = [1, 2, 3].map(() => {
      openTensorboardFile({ ...tensorboardOptions(path), rows: [], now }).close(false);
      openWandbFile({ ...wandbOptions(path), rows: [], now }).close(false);
      return readdirSync(join(path, 'tensorboard')).toSorted().at(-1)!;
    });
    expect(names).toEqual(names.toSorted());
    expect(new Set(names).size).toBe(3);
    expect(wandbRuns().map(({ id }) => id)).toEqual(['00112233', '00112233-2', '00112233-3']);
    // One that was uploaded and deleted keeps its id.
    rmSync(
      join(
        path,
        'wandb',
        readdirSync(join(path, 'wandb')).find((name) => name.endsWith('00112233'))!,
      ),
      { recursive: true },
    );
    openWandbFile({ ...wandbOptions(path), rows: [], now }).close(false);
    expect(wandbRuns().map(({ id }) => id)).toEqual(['00112233-2', '00112233-3', '00112233-4']);
  });
});
