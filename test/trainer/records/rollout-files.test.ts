import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { readKeptStep } from '../../../src/trainer/records/kept-steps.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import type { WireTrajectory } from '../../../src/schemas/training-records.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { bits, trajectory, stepsOf } from '../some-trajectories.ts';
import { killAfter, startStorage } from '../storage-process.ts';

let directory: string;
let store: RolloutFiles;
const file = (step: number) => join(directory, `step-${String(step).padStart(6, '0')}.jsonl`);
const ids = (trajectories: readonly Trajectory[]) => trajectories.map(({ rolloutId }) => rolloutId);

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-rollouts-'));
  store = new RolloutFiles(directory);
});
afterEach(() => rm(directory, { recursive: true }));

async function record(step: number, rolloutIds: readonly string[], attempts?: number): Promise<void> {
  await using open = await store.open(step);
  for (const id of rolloutIds) open.add(trajectory(id));
  if (attempts !== undefined) await open.complete(attempts);
}

describe('RolloutFiles', () => {
  it('has a rollout on file when add returns, and gives it back bit for bit when the step is opened again', async () => {
    await using step = await store.open(12);
    expect(step).toMatchObject({ step: 12, recorded: [], isComplete: false, attempts: 0 });
    const added = trajectory('3/1');
    step.add(added);
    expect((await readFile(file(12), 'utf8')).endsWith('\n')).toBe(true);
    await using again = await store.open(12);
    expect(again.recorded).toEqual([added]);
    expect(bits(again.recorded[0]!)).toEqual(bits(added));
    expect(step.recorded).toEqual([added]);
  });

  it('counts a step as complete once it is closed, and says how often it was sampled', async () => {
    await record(1, ['0/0', '0/1'], 2);
    expect(JSON.parse((await readFile(file(1), 'utf8')).trimEnd().split('\n').at(-1)!)).toEqual({
      complete: true,
      step: 1,
      attempts: 2,
      rollouts: 2,
    });
    await using step = await store.open(1);
    expect([step.isComplete, step.attempts, ids(step.recorded)]).toEqual([true, 2, ['0/0', '0/1']]);
    expect(() => step.add(trajectory('0/2'))).toThrow(/rollouts of step 1 are complete or closed/);
    expect((await readFile(file(1), 'utf8')).trimEnd().split('\n')).toHaveLength(3);
  });

  it('forgets what was recorded before a restart, in the file too, and counts the attempts on', async () => {
    await using step = await store.open(4);
    for (const id of ['0/0', '0/1']) step.add(trajectory(id));
    step.restart();
    expect(step.recorded).toEqual([]);
    step.add(trajectory('0/1'));
    await step[Symbol.asyncDispose]();
    await using again = await store.open(4);
    expect([ids(again.recorded), again.attempts]).toEqual([['0/1'], 2]);
    again.add(trajectory('0/0'));
    await again.complete(2);
    expect(await store.complete()).toEqual([{ step: 4, phase: undefined }]);
    await using closed = await store.open(4);
    expect([closed.isComplete, ids(closed.recorded)]).toEqual([true, ['0/1', '0/0']]);
  });

  it('tells what this process recorded of a step from what was on file', async () => {
    await record(4, ['0/0', '0/1']);
    const tokens = trajectory('0/2').targets.length;
    expect([store.added(4), store.added(5)]).toEqual([
      { rollouts: 2, tokens: 2 * tokens },
      { rollouts: 0, tokens: 0 },
    ]);
    store = new RolloutFiles(directory);
    await record(4, ['0/2']);
    expect(store.added(4)).toEqual({ rollouts: 1, tokens });
  });

  it('uses the later line of a rollout that was recorded twice', async () => {
    await using step = await store.open(4);
    const error = { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' as const };
    step.add(trajectory('0/0', { reward: null, error }));
    step.add(trajectory('0/1'));
    step.add(trajectory('0/0', { reward: 1 }));
    await using again = await store.open(4);
    for (const each of [step, again]) {
      expect(each.recorded.map(({ rolloutId, reward }) => [rolloutId, reward])).toEqual([
        ['0/0', 1],
        ['0/1', 0.5],
      ]);
      expect(each.attempts).toBe(2);
    }
  });

  it('refuses a file in which a finished rollout has two lines that differ, and counts one that is there word for word only once', async () => {
    const path = join(directory, 'step-000004.jsonl');
    const readers = [() => store.open(4), () => readKeptStep({ path, kept: 'live', rewards: null })];
    await record(4, ['0/0', '0/1']);
    const text = await readFile(path, 'utf8');
    const [line] = text.split('\n');
    await appendFile(path, `${line}\n`);
    await using opened = await store.open(4);
    expect(opened.recorded).toHaveLength(2);
    const notes: string[] = [];
    expect(await readKeptStep({ path, kept: 'live', rewards: null }, (note) => notes.push(note))).toHaveLength(2);
    expect(notes).toEqual([`line 3 of ${path} repeats line 1 (rollout "0/0") and was left out`]);
    await appendFile(path, `${line!.replace('"reward":0.5', '"reward":0.25')}\n`);
    for (const read of readers) await expect(read()).rejects.toThrow('Line 4 of ' + path + ' repeats rollout "0/0" of line 1 with other contents');
    // Sampled again as a whole.
    await writeFile(path, `${line}\n{"restarted":true,"step":4}\n${line!.replace('"reward":0.5', '"reward":0.25')}\n`);
    await using again = await store.open(4);
    expect(again.recorded.map(({ reward }) => reward)).toEqual([0.25]);
    expect((await readKeptStep({ path, kept: 'live', rewards: null })).map(({ reward }) => reward)).toEqual([0.25]);
  });

  it('names complete steps in order, and deletes those before a given one', async () => {
    await record(10, ['0/0'], 1);
    await record(9, ['0/0'], 1);
    await record(11, ['0/0']);
    await record(1_000_000, ['0/0'], 1);
    await appendFile(join(directory, 'notes.txt'), 'mine');
    expect(await stepsOf(store)).toEqual([9, 10, 1_000_000]);
    await store.discardBefore(11);
    expect((await readdir(directory)).toSorted()).toEqual(['notes.txt', 'step-000011.jsonl', 'step-1000000.jsonl']);
  });

  it('has no steps where there is no folder yet', async () => {
    expect(await stepsOf(new RolloutFiles(join(directory, 'missing')))).toEqual([]);
  });

  it('writes no secret', async () => {
    await using step = await new RolloutFiles(directory, { redact: (text) => text.replaceAll('sk-1234', '***') }).open(1);
    step.add(trajectory('0/0', { segments: [{ kind: 'model', text: 'say sk-1234' }] }));
    expect(await readFile(file(1), 'utf8')).not.toContain('sk-1234');
  });
});

describe('a step whose last line was cut off', () => {
  it('drops what was cut, wherever it was cut, and continues from there', async () => {
    await record(2, ['0/0', '0/1']);
    const whole = await readFile(file(2));
    const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1;
    // The ends of the line to the byte, between them every ninth byte.
    const isNearEnd = (size: number) => size < lastStart + 3 || size > whole.length - 4;
    for (let size = lastStart; size <= whole.length; size += isNearEnd(size) || isNearEnd(size + 8) ? 1 : 9) {
      await writeFile(file(2), whole.subarray(0, size));
      // With only its line feed missing, the record is complete.
      const kept = size >= whole.length - 1 ? ['0/0', '0/1'] : ['0/0'];
      await using step = await store.open(2);
      expect(ids(step.recorded)).toEqual(kept);
      step.add(trajectory('9/9'));
      const lines = (await readFile(file(2), 'utf8')).split('\n').slice(0, -1);
      expect(lines.map((line) => (JSON.parse(line) as WireTrajectory).rollout_id)).toEqual([...kept, '9/9']);
    }
  });

  it('is complete only with its whole closing line, cut at every byte', async () => {
    await record(2, ['0/0'], 3);
    const whole = await readFile(file(2));
    const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1;
    for (let size = lastStart; size <= whole.length; size++) {
      await writeFile(file(2), whole.subarray(0, size));
      const isWhole = size >= whole.length - 1;
      expect(await stepsOf(store)).toEqual(isWhole ? [2] : []);
      await using step = await store.open(2);
      expect([step.isComplete, step.recorded.length]).toEqual([isWhole, 1]);
      if (!isWhole) await step.complete(3);
      expect(await readFile(file(2))).toEqual(whole);
    }
  });

  it('drops bytes that a power failure left after the last line', async () => {
    await record(2, ['0/0']);
    await appendFile(file(2), Buffer.alloc(4096));
    await using step = await store.open(2);
    expect(ids(step.recorded)).toEqual(['0/0']);
  });
});

describe('a step with a damaged line', () => {
  it('names the file, the line and what to do, and plays what is missing once that was done', async () => {
    await record(5, ['0/0', '0/1', '0/2'], 1);
    const lines = (await readFile(file(5), 'utf8')).split('\n');
    await writeFile(file(5), [lines[0], lines[1]!.replace('"ids":"AQ', '"ids":"*Q'), ...lines.slice(2)].join('\n'));
    expect(await stepsOf(store)).toEqual([5]);
    await expect(store.open(5)).rejects.toMatchObject({
      name: 'ResultsError',
      message: expect.stringMatching(
        /Line 2 of .*step-000005\.jsonl is not a rollout .*not base64.*; delete that line; .* samples missing rollouts again/,
      ) as string,
    });
    await writeFile(file(5), [lines[0], ...lines.slice(2)].join('\n'));
    await using step = await store.open(5);
    expect([step.isComplete, ids(step.recorded)]).toEqual([false, ['0/0', '0/2']]);
    expect(await stepsOf(store)).toEqual([]);
    step.add(trajectory('0/1'));
    await using between = await store.open(5);
    // All are there, but no closing line says so yet.
    expect([between.isComplete, between.recorded.length]).toEqual([false, 3]);
    await step.complete(1);
    expect(await stepsOf(store)).toEqual([5]);
    await using again = await store.open(5);
    expect([again.isComplete, again.recorded.length]).toEqual([true, 3]);
  });

  it('is not complete when a line is not JSON at all, or belongs to another step', async () => {
    await record(5, ['0/0', '0/1'], 1);
    const whole = await readFile(file(5), 'utf8');
    await writeFile(file(6), whole);
    await writeFile(file(5), whole.replace('{"rollout_id"', '{rollout_id"'));
    expect(await stepsOf(store)).toEqual([]);
    await using copied = await store.open(6);
    expect([copied.isComplete, copied.recorded.length]).toEqual([false, 2]);
  });

  it('refuses a closing line with a torn number like any other damaged line', async () => {
    await record(5, ['0/0'], 1);
    await truncate(file(5), (await readFile(file(5))).length - 3);
    await appendFile(file(5), '\n');
    await expect(store.open(5)).rejects.toThrow(/Line 2 of/);
  });
});

describe('a process killed while it appends rollouts', () => {
  it('leaves every rollout whose add returned, and the next process continues', async () => {
    const random = Random.fromSeed(5);
    let from = 0;
    for (let round = 0; round < 3; round++) {
      const said = await killAfter(startStorage('rollouts', directory, from), 1 + random.integer(60));
      expect(said.at(-1)).toMatch(/^added \d+$/);
      const last = Number(said.at(-1)!.split(' ')[1]);
      await using step = await store.open(7);
      const found = step.recorded.map(({ rolloutId }) => Number(rolloutId.split('/')[0]));
      expect(found).toEqual([...found.keys()]);
      expect(found.length).toBeGreaterThan(last);
      expect(step.recorded.every(({ index, ids: tokens }, i) => index === 0 && tokens.length === 2000 && tokens.every((id) => id === i))).toBe(true);
      from = found.length;
    }
    expect(from).toBeGreaterThan(4);
  });
});
