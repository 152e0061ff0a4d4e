/** The trace of a run that showed pictures becomes supervised rows: a chat server plays `visual-rag`, then the stages of `vf-rounds` read it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { demonstrationPictures } from '../../src/sessions/training/demonstration-pictures.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { readDemonstrations } from '../../src/trainer/sources/read-demonstrations.ts';
import { chatServer } from '../models/chat-server.ts';
import { runInProcess } from './in-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const ROWS = join(ROOT, 'packages/vf-search-models/datasets/deck-mini/test.jsonl');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rounds-pictures-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(command: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await runInProcess(command, args, { cwd: folder, env: { HOME: folder, VF_API_KEY: 'none' } });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) as string });
}

const linesOf = (path: string) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('vf-rounds', () => {
  it('brings the pictures that a run showed into the supervised rows, by the SHA-256 of files in the run', { timeout: 120_000 }, async () => {
    const [
      {
        extra_info: { question },
      },
    ] = linesOf(ROWS) as unknown as [{ extra_info: { question: string } }];
    const turns = [
      `<think>I look for it.</think>\n<search>${question}</search>`,
      '<think>It is small.</think>\n<bbox>[10, 10, 300, 200]</bbox>',
      '<think>Done.</think>\n<search_complete>true</search_complete>',
    ];
    await using server = await chatServer(({ messages }) => turns[messages.filter(({ role }) => role === 'assistant').length % turns.length]!);
    const args = ['-m', 'judge-model', '-k', 'VF_API_KEY', '-b', `${server.url}/v1`, '-n', '2', '-r', '2', '-o', 'eval'];
    await run('vf-eval', 'visual-rag', '-a', '{"observations": "image"}', ...args);
    const [trace] = readdirSync(join(folder, 'eval'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('trace.jsonl'));
    const played = dirname(join(folder, 'eval', trace!));
    const shown = new Set(
      linesOf(join(played, 'trace.jsonl')).flatMap(({ event, images }) => (event === 'generator' ? [] : ((images ?? []) as string[]))),
    );
    expect(shown.size).toBeGreaterThanOrEqual(2);

    const traced = ['--trace', join(played, 'trace.jsonl')];
    await run('vf-rounds', 'bucket', ...traced, '--rows', ROWS, '--low', '0', '--high', '1', '-o', 'r1');
    expect(linesOf(join(folder, 'r1/bucket-a.jsonl'))).toHaveLength(2);
    await run('vf-rounds', 'extract', ...traced, '--success', 'reward', '--threshold', '0', '--max-rate', '1', '-o', 'r1/candidates.jsonl');
    await run('vf-rounds', 'finalize', 'r1/candidates.jsonl', '-o', 'r1/sft.jsonl');

    const { training } = await readDemonstrations({ sft: { data: join(folder, 'r1/sft.jsonl'), validation: null, heldOut: 0 }, seed: 0 } as never);
    const named = training.map(({ row }) =>
      (row as { messages: { content: string | { image?: string }[] }[] }).messages.flatMap(({ content }) =>
        typeof content === 'string' ? [] : content.flatMap(({ image }) => image ?? []),
      ),
    );
    // A page and what was cut out of it, in each of two rows' two rollouts.
    expect(named.map((images) => images.length)).toEqual([2, 2, 2, 2]);
    expect(new Set(named.flat())).toEqual(shown);
    expect(linesOf(join(folder, 'r1/sft.golden.jsonl')).map(({ images }) => images)).toEqual([named[0], named[2]]);

    // The bytes have these digests: the reader of vf-train --sft checks them.
    const store = new RunImages();
    const picture = await demonstrationPictures(join(played, 'images'), store);
    for (const sha256 of shown) expect(await picture(sha256)).toMatchObject({ sha256 });
  });
});
