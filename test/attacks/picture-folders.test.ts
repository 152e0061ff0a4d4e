/** Attacks on picture folders, those of pages (`images` of visual-rag) and of supervised rows (`sft.images`): names that climb out, links, pipes, files that are not pictures. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PictureFiles } from '../../environments/visual-rag/picture-files.ts';
import { Pictures } from '../../environments/visual-rag/pictures.ts';
import { demonstrationPictures } from '../../src/sessions/training/demonstration-pictures.ts';
import { VfError } from '../../src/core/errors.ts';
import type { ImageStore } from '../../src/core/message.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { servePooling } from '../retrieval/vectors/served-pooling.ts';
import { startCommand } from './attacked-process.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-attacked-pictures-'));
afterAll(() => rmSync(root, { recursive: true }));
const folder = join(root, 'pages');
const at = (name: string) => join(folder, name);
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="../secret.png" width="9" height="9"/></svg>';
const DIGEST = createHash('sha256').update('other bytes').digest('hex');
let png: Buffer;

/** Every file ends in .png: pages are named without the end, pictures of rows with it. */
const HOSTILE: readonly (readonly [string, string])[] = [
  ['a name that climbs out', '../secret'],
  ['a name that goes in and climbs out', 'deeper/../../secret'],
  ['a link out of the folder', 'link'],
  ['a link to a link out of the folder', 'chain'],
  ['a file behind a linked folder', 'linked/secret'],
  ['a link to itself', 'loop'],
  ['a link to a device', 'endless'],
  ['a link to what the process itself is', 'self'],
  ['a pipe', 'pipe'],
  ['a folder', 'folder'],
  ['a file of 10 GB', 'huge'],
  ['an empty file', 'empty'],
  ['an SVG', 'svg'],
  ['an SVG behind the first bytes of a JPEG', 'dressed'],
  ['a page of HTML', 'html'],
  ['a picture of ten thousand million pixels', 'bomb'],
  ['a name that nothing has', 'missing'],
  ['a name of 5,000 characters', 'x'.repeat(5000)],
  ['a name with a zero byte', 'good\0'],
];

beforeAll(async () => {
  for (const name of ['', 'deeper', 'folder.png']) mkdirSync(at(name));
  png = await sharp({ create: { width: 56, height: 28, channels: 3, background: '#336699' } })
    .png()
    .toBuffer();
  const secret = join(root, 'secret.png');
  for (const path of [secret, at('good.png'), at('..good.png'), at('deeper/page.png')]) writeFileSync(path, png);
  for (const [name, target] of [
    ['link.png', secret],
    ['chain.png', at('link.png')],
    ['linked', root],
    ['loop.png', at('loop.png')],
    ['endless.png', '/dev/zero'],
    ['self.png', '/proc/self/environ'],
    ['inside.png', at('good.png')],
  ] as const)
    symlinkSync(target, at(name));
  spawnSync('mkfifo', [at('pipe.png')]);
  writeFileSync(at('huge.png'), png);
  truncateSync(at('huge.png'), 10 * 2 ** 30);
  for (const [name, bytes] of [
    ['empty.png', ''],
    ['svg.png', SVG],
    ['html.png', '<!doctype html><img src="file:///etc/passwd">'],
  ] as const)
    writeFileSync(at(name), bytes);
  writeFileSync(at('dressed.png'), Buffer.from(`\xff\xd8\xff${SVG}`, 'latin1'));
  const bomb = Buffer.from(png);
  for (const side of [16, 20]) bomb.writeUInt32BE(100_000, side);
  writeFileSync(at('bomb.png'), bomb);
  writeFileSync(at(`${DIGEST}.png`), png);
});

const { signal } = new AbortController();

/** A store that nothing may reach. */
const closed: ImageStore = {
  put: () => expect.unreachable('a hostile picture was stored'),
  get: () => expect.unreachable('nothing was stored'),
};

/** What came of reading a picture. */
async function outcome(reading: Promise<unknown>): Promise<object> {
  const error = await reading.catch((thrown: unknown) => thrown);
  if (!(error instanceof VfError)) return { error };
  return { error: error.name, isOneLine: !/[\n\0]/.test(error.message) && error.message.length < 1000 };
}
const REFUSED = { error: 'ConfigError', isOneLine: true };
const UNUSABLE = { error: 'EnvironmentError', isOneLine: true };

describe('a folder of page pictures', () => {
  it.each(HOSTILE)('refuses %s', async (_, page) => {
    const pictures = await Pictures.open(folder, closed);
    const request = { page, area: null, size: { width: 28, height: 28 } };
    for (const reading of [pictures.size(page, signal), pictures.picture(request, signal)]) expect(await outcome(reading)).toEqual(UNUSABLE);
  });

  it('gives the pictures inside, also by a link within the folder', async () => {
    const pictures = await Pictures.open(folder, new RunImages());
    for (const page of ['good', 'inside', 'deeper/page']) expect(await pictures.size(page, signal)).toEqual({ width: 56, height: 28 });
  });

  it('must be a folder', async () => {
    for (const path of [at('good.png'), at('pipe.png'), '/dev/zero', join(root, 'nowhere'), `${folder}\0`])
      expect(await outcome(PictureFiles.open(path))).toEqual(REFUSED);
  });

  it('with a pipe among its pages ends a command that searches them, in one line', async () => {
    await using server = await servePooling();
    const row = { id: 'q', extra_info: { question: 'Who?', file_name: 'good.pdf', reference_page: [1] }, reward_model: { ground_truth: 'x' } };
    writeFileSync(join(root, 'rows.jsonl'), `${JSON.stringify(row)}\n`);
    const words = ['good_1', 'pipe'].map((id) => `${JSON.stringify({ id, width: 56, height: 28, words: [] })}\n`).join('');
    writeFileSync(join(root, 'words.jsonl'), words);
    writeFileSync(at('good_1.png'), png);
    const args = {
      dataset: join(root, 'rows.jsonl'),
      pages: join(root, 'words.jsonl'),
      images: folder,
      observations: 'ocr',
      search_url: `${server.url}/pooling`,
      search_index: join(root, 'index'),
    };
    await using process = startCommand('vf-eval', ['visual-rag', '-n', '1', '-a', JSON.stringify(args), '-o', join(root, 'out')]);
    const [code] = await process.ended;
    expect([1, 2]).toContain(code);
    expect(process.stderr.trimEnd().split('\n').at(-1)).toMatch(/The picture of page "pipe" in .* cannot be used: it is not a regular file\.$/);
    expect(process.stderr).not.toMatch(/unexpected|\n +at /);
  });
});

describe('a folder of the pictures of supervised rows', () => {
  const sizes = { unit: 28, minPixels: 28 * 28, maxPixels: 280 * 280 };

  it.each(HOSTILE)('refuses %s', async (_, name) => {
    const picture = await demonstrationPictures(folder, closed, sizes);
    for (const isPlaced of [false, true]) expect(await outcome(picture(`${name}.png`, { isPlaced }))).toEqual(REFUSED);
  });

  it.each(['', '.', '..', '/', '/etc/passwd', 'deeper', DIGEST, 'https://example.org/a.png', 'data:image/png;base64,AAAA'])(
    'refuses the name %j',
    async (name) => {
      const picture = await demonstrationPictures(folder, closed, sizes);
      expect(await outcome(picture(name))).toEqual(REFUSED);
    },
  );

  it('gives the pictures inside, also by a link within the folder', async () => {
    const picture = await demonstrationPictures(folder, new RunImages(), sizes);
    for (const name of ['good.png', 'inside.png', 'deeper/page.png', './deeper/../good.png', '..good.png', at('good.png')])
      expect(await picture(name)).toMatchObject({ width: 56, height: 28 });
  });

  it('must be a folder', async () => {
    for (const path of [at('good.png'), at('pipe.png'), join(root, 'nowhere'), `${folder}\0`])
      expect(await outcome(demonstrationPictures(path, closed))).toEqual(REFUSED);
  });
});
