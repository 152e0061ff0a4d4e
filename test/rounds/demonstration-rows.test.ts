import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDemonstrationRows } from '../../src/rounds/demonstration-rows.ts';
import { finalizeStage } from '../../src/rounds/finalize-stage.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vf-demonstration-rows-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function read(rows: readonly { readonly uid: string; readonly prompt_uid?: string }[], turn: string | null = null) {
  const path = join(folder, 'rows.jsonl');
  const messages = [{ role: 'user', content: 'Q?' }, ...(turn === null ? [] : [{ role: 'assistant', content: turn }])];
  await writeFile(path, rows.map((row) => `${JSON.stringify({ ...row, format_version: 'v1', messages })}\n`).join(''));
  return readDemonstrationRows([path]);
}

describe('readDemonstrationRows', () => {
  it.each([
    ['doc__summary_1', 'doc__summary_1'],
    ['doc__setup_2__s0', 'doc__setup_2'],
    ['doc__setup_2__s12__run', 'doc__setup_2'],
    ['doc__s3__s0__run-1', 'doc__s3'],
    ['doc__s0__a_b', 'doc__s0__a_b'],
  ])('takes the index and the run from the end of the uid %s alone', async (uid, prompt) => {
    expect((await read([{ uid }]))[0]).toMatchObject({ prompt });
  });

  it('reads the prompt that extract wrote, whatever the uid looks like', async () => {
    expect((await read([{ uid: 'doc__s3__s0', prompt_uid: 'doc__s3' }]))[0]).toMatchObject({ prompt: 'doc__s3' });
  });
});

describe('finalizeStage', () => {
  it('keeps the rows of prompts apart whose ids hold "__s"', async () => {
    const rows = await read(['doc__summary_1', 'doc__setup_2', 'doc__s3'].map((prompt) => ({ uid: `${prompt}__s0__r`, prompt_uid: prompt })));
    const { counts, outputs } = finalizeStage(rows, { most: 1, output: 'sft.jsonl', golden: 'golden.jsonl' });
    expect(counts).toMatchObject({ prompts: 3, kept: 3 });
    expect(outputs[1]!.lines.map((line) => (JSON.parse(line) as { prompt_uid: string }).prompt_uid)).toEqual([
      'doc__s3',
      'doc__setup_2',
      'doc__summary_1',
    ]);
  });

  it.each([
    ['<think>Then <bbox>[1, 2, 3, 4]</bbox>.</think>\n<search>q</search>', 1],
    ['<think>So far </search_complete> is not it.</think>\n<search>q</search>', 1],
    ['<think>A box.</think>\n<bbox>[1, 2, 3, 4]</bbox>', 0],
  ])('leaves out a row whose thought holds the tag of an action: %s', async (turn, spoiled) => {
    const { counts, outputs } = finalizeStage(await read([{ uid: 'p__s0__r' }], turn), { output: 'sft.jsonl', golden: 'golden.jsonl' });
    expect(counts).toMatchObject({ rows: 1, with_system_errors: 0, spoiled, kept: 1 - spoiled });
    expect(outputs[0]!.lines).toHaveLength(1 - spoiled);
  });
});
