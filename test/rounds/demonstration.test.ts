import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { demonstration, type DemonstrationOptions } from '../../src/rounds/demonstration.ts';
import { NO_SEARCH_RESULT } from '../../src/rounds/messages-v1.ts';
import { readTraces } from '../../src/rounds/read-traces.ts';
import { rolloutLines } from './trace-lines.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-demonstration-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

type Line = Readonly<Record<string, unknown>>;

/** Contents of the messages after the opening, of a rollout that searches twice, cuts out and completes, with changes in its trace; why, if it is dropped. */
async function contents(change: (line: Line) => Line, options: DemonstrationOptions = {}) {
  const path = join(folder, 'trace.jsonl');
  const lines = rolloutLines({ prompt: 'a', index: 0, pages: ['a_1', 'a_2'] }).map((line) => change(JSON.parse(line) as Line));
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const { rollouts } = await readTraces([path]);
  expect(rollouts).toHaveLength(1);
  const made = demonstration(rollouts[0]!, options);
  return typeof made === 'string' ? made : made.map(({ content }) => content).slice(2);
}

const isFirst = ({ event, turn }: Line, name: string) => event === name && turn === 0;
const [SEARCH_1, SEARCH_2] = ['a_1', 'a_2'].map((page) => `<think>I look.</think>\n<search>find ${page}</search>`);
const BOX = '<think>I look.</think>\n<bbox>[1, 2, 30, 40]</bbox>';
const COMPLETE = '<think>I look.</think>\n<search_complete>true</search_complete>';

describe('demonstration', () => {
  it('keeps a search that found nothing, with the words that the policy saw', async () => {
    const change = (line: Line) => (isFirst(line, 'search.response') ? { ...line, page: undefined, results: [], text: 'Nothing was found.' } : line);
    expect(await contents(change)).toEqual([SEARCH_1, 'Nothing was found.', SEARCH_2, 'Page a_2', BOX, 'Crop', COMPLETE]);
  });

  it('names the pictures that the policy saw by their digests', async () => {
    const change = (line: Line) =>
      line['event'] === 'search.response' || line['event'] === 'crop'
        ? { ...line, text: undefined, images: [`${line['event']}-${String(line['turn'])}`] }
        : line;
    const image = (name: string) => [{ image: name }];
    expect(await contents(change)).toEqual([
      SEARCH_1,
      image('search.response-0'),
      SEARCH_2,
      image('search.response-1'),
      BOX,
      image('crop-2'),
      COMPLETE,
    ]);
  });

  it('drops a rollout with an action that does not follow its think, unless actions need not be strict', async () => {
    const text = '<search>find a_1</search>\n<think>I look.</think>';
    const change = (line: Line) => (isFirst(line, 'model.turn') ? { ...line, text } : line);
    expect(await contents(change)).toBe('turn');
    expect((await contents(change, { strictActions: false }))[0]).toBe(text);
  });

  it('drops a rollout whose search the policy did not complete, as where the environment ends it after the last turn', async () => {
    const change = (line: Line) => (line['text'] === COMPLETE ? { ...line, event: 'other' } : line);
    expect(await contents(change)).toBe('end');
  });

  it('drops a rollout whose box was refused, and one without a question', async () => {
    expect(await contents((line) => (line['event'] === 'crop' ? { ...line, page: undefined, problem: 'no area' } : line))).toBe('result');
    expect(await contents((line) => (line['event'] === 'reward' ? { ...line, question: ' ' } : line))).toBe('question');
  });

  it('reports a result that did not arrive, or drops its rollout', async () => {
    const change = (line: Line) => (isFirst(line, 'search.response') ? { ...line, event: 'search.request' } : line);
    expect(await contents(change)).toEqual([SEARCH_1, NO_SEARCH_RESULT, SEARCH_2, 'Page a_2', BOX, 'Crop', COMPLETE]);
    expect(await contents(change, { missingResults: false })).toBe('result');
  });
});
