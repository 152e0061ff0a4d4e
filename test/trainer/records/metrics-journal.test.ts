import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import { MetricsJournal, readMetrics } from '../../../src/trainer/records/metrics-journal.ts';
import { EVALUATION_METRICS, STEP_METRICS } from '../../../src/trainer/records/metrics.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const clock = () => new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678));
const time = '2026-01-02T03:04:05.678Z';
const step = (number: number, values: MetricsRow['values'] = { reward_mean: number / 7 }): MetricsRow => ({ kind: 'step', step: number, values });
const evaluation = (number: number): MetricsRow => ({
  kind: 'evaluation',
  step: number,
  values: { reward_mean: 0.25, 'rubric/em': 0.5, 'reward/search': 0.5 },
});

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-metrics-'));
  path = join(directory, 'metrics.jsonl');
});
afterEach(() => rm(directory, { recursive: true }));

async function append(rows: readonly MetricsRow[], through: number | null = null): Promise<void> {
  const journal = await MetricsJournal.open(path, { through, clock });
  for (const row of rows) journal.append(row);
  await journal.close();
}
const lines = async () => (await readFile(path, 'utf8')).split('\n').slice(0, -1);
/** What a journal that is opened now leaves in the file. */
async function rowsOf(through: number | null = null): Promise<readonly MetricsRow[]> {
  const journal = await MetricsJournal.open(path, { through, clock });
  await journal.close();
  const rows = await readMetrics(path);
  expect(journal.rows).toEqual(rows.map((row) => (row.kind === 'step' ? { ...row, values: {} } : row)));
  return rows;
}

describe('MetricsJournal', () => {
  it('writes one flat line for a row, at once', async () => {
    const journal = await MetricsJournal.open(path, { through: null, clock });
    journal.append(step(3, { reward_mean: 0.5, kl: null, 'rubric/em': 1 }));
    expect(await readFile(path, 'utf8')).toBe(`{"kind":"step","step":3,"time":"${time}","reward_mean":0.5,"kl":null,"rubric/em":1}\n`);
    expect(journal.rows).toEqual([step(3, {})]);
    await journal.close();
  });

  it('gives every row back as it was {any metrics}', async () => {
    const value = fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0));
    const names = (definitions: readonly { name: string }[]) =>
      fc.dictionary(fc.oneof(fc.constantFrom(...definitions.map(({ name }) => name)), fc.constant('rubric/em')), value, { noNullPrototype: true });
    const row = fc.oneof(
      fc.record({ kind: fc.constant('step' as const), step: fc.nat(), values: names(STEP_METRICS) }),
      fc.record({ kind: fc.constant('evaluation' as const), step: fc.nat(), values: names(EVALUATION_METRICS) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 5 }), async (rows) => {
        await rm(path, { force: true });
        await append(rows);
        expect(await rowsOf()).toEqual(rows);
      }),
      { numRuns: 30 },
    );
  });

  it('keeps the rows through a step on resume, whatever their order, and measures the rest again', async () => {
    await append([evaluation(0), step(1), step(2), evaluation(2), step(3), step(4), evaluation(4)]);
    const before = await lines();
    await append([], null);
    expect(await lines()).toEqual(before);
    await append([step(3, { loss: 1 })], 2);
    expect(await lines()).toEqual([...before.slice(0, 4), `{"kind":"step","step":3,"time":"${time}","loss":1}`]);
    expect((await rowsOf()).map((row) => `${row.kind} ${row.step}`)).toEqual(['evaluation 0', 'step 1', 'step 2', 'evaluation 2', 'step 3']);
    await append([], -1);
    expect(await lines()).toEqual([]);
  });

  it('drops a last line that was cut off, at every byte, and continues', async () => {
    await append([step(1), step(2)]);
    const whole = await readFile(path);
    const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1;
    for (let size = lastStart; size <= whole.length; size++) {
      await writeFile(path, whole.subarray(0, size));
      await append([step(3)], size % 2 === 0 ? null : 2);
      expect((await rowsOf()).map((row) => row.step)).toEqual(size >= whole.length - 1 ? [1, 2, 3] : [1, 3]);
    }
  });

  it('drops rows of later steps together with a line that was cut off after them', async () => {
    await append([step(1), step(2)]);
    await appendFile(path, '{"kind":"step","st');
    expect((await rowsOf(1)).map((row) => row.step)).toEqual([1]);
    expect(await lines()).toHaveLength(1);
  });

  it('refuses a name that is not defined for its kind of line, and writes nothing of the row', async () => {
    const journal = await MetricsJournal.open(path, { through: null, clock });
    expect(() => journal.append(step(1, { reward_mean: 1, rewardmean: 1 }))).toThrow(TrainingError);
    expect(() => journal.append(step(1, { rewardmean: 1 }))).toThrow(/"rewardmean" is not a metric of a line of kind "step"; define it in/);
    expect(() => journal.append({ kind: 'evaluation', step: 1, values: { loss: 1 } })).toThrow(
      /"loss" is not a metric of a line of kind "evaluation"/,
    );
    expect(await lines()).toEqual([]);
    expect(journal.rows).toEqual([]);
    await journal.close();
  });

  it('writes null for what is not a finite number, and says so', async () => {
    const notes: string[] = [];
    const journal = await MetricsJournal.open(path, { through: null, clock, onNotFinite: (note) => notes.push(note) });
    journal.append(step(2, { grad_norm: NaN, ratio_max: Infinity, kl: null, loss: 0 }));
    expect(await lines()).toEqual([`{"kind":"step","step":2,"time":"${time}","grad_norm":null,"ratio_max":null,"kl":null,"loss":0}`]);
    expect(notes).toEqual(['grad_norm, ratio_max of step 2 are not finite numbers; they are recorded as null']);
    await journal.close();
  });

  it('names the line that is not a row, and keeps metrics that another version defined', async () => {
    await writeFile(path, `{"kind":"step","step":1,"time":"${time}","of_tomorrow":4}\n`);
    expect((await rowsOf())[0]!.values).toEqual({ of_tomorrow: 4 });
    await appendFile(path, `{"kind":"step","step":2,"time":"${time}","loss":"high"}\n`);
    await expect(rowsOf()).rejects.toThrow(/Line 2 of .*metrics\.jsonl is not a row of metrics \(loss .*\); delete that line/);
  });
});
