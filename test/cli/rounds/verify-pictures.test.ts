/** `vf-rounds verify` over runs that showed pages as pictures, in child processes, with a vetter on the loopback. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import sharp from 'sharp';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chatServer } from '../../models/chat-server.ts';
import { rolloutLines, rowsText } from '../../rounds/trace-lines.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';

const SCRIPT = join(import.meta.dirname, '../../../src/cli/vf-rounds.ts');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-verify-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function verify(...args: string[]) {
  const words = ['--conditions=vf-search-source', '--no-warnings', SCRIPT, 'verify', '--rows', 'rows.jsonl', '-o', 'list.jsonl', ...args];
  const child = spawn(process.execPath, words, {
    cwd: folder,
    env: { ...BARE_ENVIRONMENT, HOME: folder },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
  return { status: child.exitCode, stderr };
}

const png = (shade: number) =>
  sharp({ create: { width: 56, height: 28, channels: 3, background: { r: shade, g: shade, b: shade } } })
    .png()
    .toBuffer();

/** A run in a folder whose two rollouts saw these pictures, a page and a part of it. */
function runOf(name: string, prompt: string, pictures: readonly Buffer[]) {
  mkdirSync(join(folder, name, 'images'), { recursive: true });
  const digests = pictures.map((bytes) => createHash('sha256').update(bytes).digest('hex'));
  for (const [i, bytes] of pictures.entries()) writeFileSync(join(folder, name, 'images', `${digests[i]}.png`), bytes);
  const lines = [0, 1].flatMap((index) => rolloutLines({ prompt, index, judge: 0, run: name }));
  const shown = lines.map((line) => {
    const event = JSON.parse(line) as { event: string; text?: string };
    if (event.event !== 'search.response' && event.event !== 'crop') return line;
    const { text: _, ...rest } = event;
    return JSON.stringify({ ...rest, images: [digests[event.event === 'crop' ? 1 : 0]] });
  });
  writeFileSync(join(folder, name, 'trace.jsonl'), `${shown.join('\n')}\n`);
}

describe('vf-rounds verify', () => {
  it('sends the vetter the pictures that each run showed, each once, and writes nothing next to them', async () => {
    const [page, part, other, otherPart] = (await Promise.all([10, 90, 170, 250].map(png))) as [Buffer, Buffer, Buffer, Buffer];
    runOf('one', 'a', [page, part]);
    runOf('two', 'b', [other, otherPart]);
    writeFileSync(join(folder, 'rows.jsonl'), rowsText(['a', 'b']));
    await using server = await chatServer(() => JSON.stringify({ verdict: 'GEN_ERROR', reason: 'seen on the page' }));
    const traces = ['--trace', 'one/trace.jsonl', '--trace', 'two/trace.jsonl'];
    expect(await verify(...traces, '--role', `vetter=m@${server.url}/v1`)).toMatchObject({ status: 0 });
    const asked = server.bodies.map(({ messages }) => messages.at(-1)!.content as unknown as { text?: string; image_url?: { url: string } }[]);
    const urlsBy = new Map(
      asked.map(([first, ...parts]) => [(JSON.parse(first!.text!) as { question: string }).question, parts.map((each) => each.image_url?.url)]),
    );
    const url = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`;
    expect(Object.fromEntries(urlsBy)).toEqual({ 'What is a?': [url(page), url(part)], 'What is b?': [url(other), url(otherPart)] });
    expect(readdirSync(join(folder, 'one', 'images'))).toHaveLength(2);
  });

  it('refuses to ask about pictures that no run kept, and makes the list without a vetter', async () => {
    runOf('one', 'a', [await png(10), await png(90)]);
    rmSync(join(folder, 'one', 'images'), { recursive: true });
    writeFileSync(join(folder, 'rows.jsonl'), rowsText(['a']));
    await using server = await chatServer(() => '{}');
    expect(await verify('--trace', 'one/trace.jsonl', '--role', `vetter=m@${server.url}/v1`)).toEqual({
      status: 2,
      stderr: 'vf-rounds: The trace shows pages as pictures, which verify cannot send to a vetter. Leave --role out and fill in the list yourself.\n',
    });
    expect(server.bodies).toEqual([]);
    expect(await verify('--trace', 'one/trace.jsonl')).toMatchObject({ status: 0 });
    expect(readFileSync(join(folder, 'list.jsonl'), 'utf8')).toMatch(/^\{"id":"a","exclude":false,"reason":"","verdict":null/);
  });
});
