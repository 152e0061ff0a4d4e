import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { moduleDigests, pathDigests } from '../../src/files/input-digests.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-digests-'));
afterAll(() => rmSync(root, { recursive: true }));
let count = 0;

async function namesOf(code: string, files: readonly string[]): Promise<readonly string[]> {
  const folder = join(root, String(count++));
  for (const name of ['main.mjs', ...files]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), name === 'main.mjs' ? code : '{}');
  }
  return Object.keys(await moduleDigests(join(folder, 'main.mjs'))).filter((name) => name !== 'main.mjs');
}

describe('moduleDigests', () => {
  it.each([
    ["new URL('words.txt', import.meta.url)", 'words.txt'],
    ["readFileSync(new URL(\n  './data/words.txt',\n  import.meta.url,\n), 'utf8')", 'data/words.txt'],
    ['new URL("two%20words.txt?raw#top", import.meta.url)', 'two words.txt'],
    ["import.meta.resolve('./part.js')", 'part.js'],
    ["await import('./part.js')", 'part.js'],
    ['await import(`./part.js`)', 'part.js'],
    ["import { beta } from './part.js'", 'part.ts'],
    ["export * from './part.mjs'", 'part.mts'],
    ["import words from './words.json' with { type: 'json' }", 'words.json'],
    ["createRequire(import.meta.url)('./words.json')", 'words.json'],
    ["require('./words')", 'words.json'],
    ["require('./lib')", 'lib/index.js'],
    ['readFileSync(join(import.meta.dirname, \'data\', "words.txt"))', 'data/words.txt'],
    ["readFileSync(path.resolve(__dirname, 'words.txt'))", 'words.txt'],
    ["readFileSync(import.meta.dirname + '/words.txt')", 'words.txt'],
    ['readFileSync(`${import.meta.dirname}/words.txt`)', 'words.txt'],
  ])('follows %s', async (code, name) => {
    expect(await namesOf(code, [name, 'other.txt'])).toEqual([name]);
  });

  it('leaves out what is not text of the module, and names that lead nowhere', async () => {
    const code = "import 'vf-search'; const name = 'words.txt'; readFileSync(join(import.meta.dirname, name)); new URL('gone.txt', import.meta.url);";
    expect(await namesOf(code, ['words.txt'])).toEqual([]);
  });
});

describe('pathDigests', () => {
  it('of a folder changes with the files in it, and not with packages that are installed there', async () => {
    const folder = join(root, String(count++));
    const write = async (name: string, text: string) => {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
      return Object.values(await pathDigests(folder))[0];
    };
    const first = await write('inner/b.txt', 'b');
    expect(await write('node_modules/ai/index.js', '1')).toBe(first);
    expect(await write('venv/lib/site-packages/openai.py', '1')).toBe(first);
    expect(await write('inner/b.txt', 'c')).not.toBe(first);
    expect(await write('inner/b.txt', 'b')).toBe(first);
    expect(await write('inner/deeper/a.txt', 'a')).not.toBe(first);
  });
});
