/**
 * Makes the data set deck-mini: `node scripts/deck-mini/make.ts [FOLDER]`, by default into packages/vf-search-models/datasets/deck-mini. The same versions of renderer and encoder give
 * the same bytes, others the same pixels up to the palette. `--check` compares instead: every pixel, every word, every question.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { initWasm, Resvg } from '@resvg/resvg-wasm';
import sharp from 'sharp';
import { Random } from '../../src/core/random.ts';
import { buildDeck, type Question } from './deck.ts';
import { createMeasure } from './measure.ts';
import { HEIGHT, type Page, WIDTH } from './page.ts';
import { readRegularBytes, readRegularFile } from '../../src/files/regular-file.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SEED = 20_260_101;
/** Colours of a page. */
const PALETTE = 64;

const { values, positionals } = parseArgs({ options: { check: { type: 'boolean', default: false } }, allowPositionals: true });
const folder = positionals[0] ?? join(ROOT, 'packages/vf-search-models/datasets/deck-mini');

await initWasm(await readRegularBytes(fileURLToPath(import.meta.resolve('@resvg/resvg-wasm/index_bg.wasm'))));
const font = await readRegularBytes(join(ROOT, 'src/reports/plot/dejavu-sans-subset.ttf'));
const { pages, questions } = buildDeck(Random.fromSeed(SEED), createMeasure(font));

const texts: Readonly<Record<string, string>> = {
  'pages.jsonl': jsonl(pages.map(wordsOf)),
  'train.jsonl': jsonl(rows((i) => i % 2 === 1)),
  'test.jsonl': jsonl(rows((i) => i % 2 === 0)),
};
if (values.check) await check();
else await write();

async function write(): Promise<void> {
  await mkdir(join(folder, 'pages'), { recursive: true });
  let bytes = 0;
  for (const page of pages) {
    const png = await encode(render(page));
    bytes += png.length;
    await writeFile(join(folder, 'pages', `${page.id}.png`), png);
  }
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
  process.stdout.write(`${pages.length} pages, ${(bytes / 1e6).toFixed(2)} MB; ${questions.length} questions; in ${folder}\n`);
}

async function check(): Promise<void> {
  const different: string[] = [];
  for (const page of pages) {
    const [own, theirs] = [await decode(await encode(render(page))), await decode(await readRegularBytes(join(folder, 'pages', `${page.id}.png`)))];
    if (!own.equals(theirs)) different.push(`pages/${page.id}.png`);
  }
  for (const [name, text] of Object.entries(texts)) if ((await readRegularFile(join(folder, name))) !== text) different.push(name);
  process.stdout.write(
    different.length === 0 ? `${pages.length} pages and their words and questions are equal\n` : `different: ${different.join(', ')}\n`,
  );
  process.exitCode = different.length === 0 ? 0 : 1;
}

/** [HEIGHT × WIDTH × 4] */
function render(page: Page): Uint8Array {
  const drawing = new Resvg(page.svg, { font: { fontBuffers: [font], defaultFontFamily: 'DejaVu Sans' } });
  const image = drawing.render();
  const pixels = Uint8Array.from(image.pixels);
  image.free();
  drawing.free();
  return pixels;
}

function encode(pixels: Uint8Array): Promise<Buffer> {
  const raw = { width: WIDTH, height: HEIGHT, channels: 4 } as const;
  return sharp(pixels, { raw }).removeAlpha().png({ palette: true, colours: PALETTE, effort: 10 }).toBuffer();
}

function decode(png: Buffer): Promise<Buffer> {
  return sharp(png).raw().toBuffer();
}

/** A word is its text, its box and its line. */
function wordsOf({ id, words }: Page): unknown {
  return { id, width: WIDTH, height: HEIGHT, words: words.map(({ text, box, line }) => [text, ...box, line]) };
}

/** In the columns of upstream's Parquet files; every other question of a kind, so that both splits hold every kind. */
function rows(isIn: (place: number) => boolean): unknown[] {
  const places = new Map<Question['kind'], number>();
  return questions.flatMap(({ question, answer, document, pages: reference_page, kind }, i) => {
    const place = places.get(kind) ?? 0;
    places.set(kind, place + 1);
    if (!isIn(place)) return [];
    return [{ id: `deck_mini_${i}`, extra_info: { file_name: document, reference_page, question, kind }, reward_model: { ground_truth: answer } }];
  });
}

function jsonl(lines: readonly unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
