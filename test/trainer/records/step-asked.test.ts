import { appendFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AskedRecord } from '../../../src/core/model.ts';
import { readAsked } from '../../../src/trainer/records/step-asked.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import type { WireAskedLine } from '../../../src/schemas/asked-line.ts';
import { trajectory, stepsOf } from '../some-trajectories.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-step-asked-'));
});
afterEach(() => rm(directory, { recursive: true }));

const asked = (text: string): AskedRecord => ({
  role: 'judge',
  model: 'm',
  version: null,
  usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null },
  finish: 'stop',
  ms: 1,
  waitMs: 0,
  attempts: 1,
  messages: [{ role: 'user', content: `${text}?` }],
  text,
});
const path = () => join(directory, 'step-000007.asked.jsonl');
const lines = async () =>
  (await readFile(path(), 'utf8'))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as WireAskedLine);

describe('readAsked', () => {
  it('gives every call on file, including those of rollouts that were played again, and the steps', async () => {
    const seen: string[] = [];
    const read = () => readAsked(directory, (calls) => seen.push(...calls.map(({ text }) => text)));
    expect(await read()).toEqual([]);
    const store = new RolloutFiles(directory, { asks: true });
    for (const number of [12, 7]) {
      const step = await store.open(number);
      step.add(trajectory('x/0'), [asked(`${number}a`), asked(`${number}b`)]);
      step.add(trajectory('x/0'), [asked(`${number}c`)]);
      await step[Symbol.asyncDispose]();
    }
    await appendFile(path(), '{"torn');
    expect(await read()).toEqual([7, 12]);
    expect(new Set(seen)).toEqual(new Set(['12a', '12b', '12c', '7a', '7b', '7c']));
    expect(await lines()).toHaveLength(2);
  });
});

describe('RolloutFiles with models by role', () => {
  it('keeps the calls of the rollouts of a step in a file next to them, without secrets, and does not take that file for a step', async () => {
    const store = new RolloutFiles(directory, { asks: true, redact: (text) => text.replaceAll('secret', '***') });
    const step = await store.open(7);
    step.add(trajectory('secret/0'), [asked('a secret'), asked('b')]);
    step.add(trajectory('x/1'), []);
    await step.complete(1);
    const [line, ...others] = await lines();
    expect(others).toEqual([]);
    expect(line).toMatchObject({
      schema_version: 1,
      rollout_id: 'secret/0',
      asked: [{ text: 'a ***', messages: [{ content: 'a ***?' }] }, { text: 'b' }],
    });
    expect(await stepsOf(store)).toEqual([7]);
    await store.discard(7);
    expect(await readdir(directory)).toEqual([]);
  });

  it('continues after a line that a dying process left torn', async () => {
    const store = new RolloutFiles(directory, { asks: true });
    await using first = await store.open(7);
    first.add(trajectory('a/0'), [asked('a')]);
    await first[Symbol.asyncDispose]();
    await appendFile(path(), '{"schema_version":1,"rol');
    await using second = await store.open(7);
    second.add(trajectory('a/1'), [asked('b')]);
    expect((await lines()).map(({ rollout_id: id }) => id)).toEqual(['a/0', 'a/1']);
  });

  it('a run without roles has no such file', async () => {
    const store = new RolloutFiles(directory);
    await using step = await store.open(7);
    step.add(trajectory('a/0'), [asked('a')]);
    expect(await readdir(directory)).toEqual(['step-000007.jsonl']);
  });
});
