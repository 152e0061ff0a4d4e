/** Index folders that were damaged, or written to do harm. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { buildIndexFolder } from '../../src/retrieval/bm25/build-index-folder.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { CommandHost } from '../cli/command-host.ts';

const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-index-'));
const whole = join(folder, 'whole');
let copy: string;
let made = 0;
beforeAll(async () => {
  const corpus = join(folder, 'corpus.jsonl');
  writeFileSync(corpus, CONTRACT_PASSAGES.map((passage) => `${JSON.stringify(passage)}\n`).join(''));
  await buildIndexFolder({ corpus, target: whole });
});
beforeEach(() => {
  copy = join(folder, `copy-${++made}`);
  cpSync(whole, copy, { recursive: true });
});
const host = new CommandHost();
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** Everything that the index returns: each passage is found by a word of its own. */
async function contentsOf(path: string): Promise<unknown> {
  const retriever = await openBm25(path);
  try {
    return await retriever.search(
      CONTRACT_PASSAGES.map(({ contents }) => contents),
      { topk: 5, signal },
    );
  } finally {
    await retriever.close();
  }
}

describe('an index under attack', () => {
  it('never returns anything but what was indexed, whichever bit is flipped {one bit of each byte of each file}', async () => {
    const expected = await contentsOf(whole);
    const random = Random.fromSeed(5);
    const outcomes = { refused: 0, unchanged: [] as string[], changed: [] as object[] };
    for (const name of readdirSync(whole)) {
      const bytes = readFileSync(join(whole, name));
      for (let at = 0; at < bytes.length; at++) {
        const flipped = Buffer.from(bytes);
        flipped[at]! ^= 1 << random.integer(8);
        writeFileSync(join(copy, name), flipped);
        const found = await contentsOf(copy).catch((error: unknown) => error);
        if (found instanceof ConfigError || found instanceof RetrievalError) outcomes.refused += 1;
        else if (isDeepStrictEqual(found, expected)) outcomes.unchanged.push(`${name} ${at}`);
        else outcomes.changed.push({ name, at, found });
      }
      writeFileSync(join(copy, name), bytes);
    }
    expect(outcomes.changed).toEqual([]);
    expect(outcomes.refused).toBeGreaterThan(1000);
    // Spaces between the values of the manifest, which may be other spaces.
    expect(outcomes.unchanged.filter((place) => !place.startsWith('manifest.json'))).toEqual([]);
  });

  it('never returns a passage that was exchanged for one of the same length', async () => {
    const path = join(copy, 'passages.jsonl');
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('Zumardle', 'Zumardla'));
    await expect(contentsOf(copy)).rejects.toThrow(/Passage \d+ of .*passages\.jsonl has changed since it was indexed.*index it again/);
  });

  it('that an older version wrote, without checksums, is refused with the way out', async () => {
    const { crc32: _, ...manifest } = JSON.parse(readFileSync(join(copy, 'manifest.json'), 'utf8')) as Record<string, unknown>;
    writeFileSync(join(copy, 'manifest.json'), JSON.stringify({ ...manifest, version: 1 }));
    await expect(contentsOf(copy)).rejects.toThrow(
      /format version 1, this package reads 2\. Build it again: vf-index <corpus\.jsonl> -o .* --force$/,
    );
  });

  it.each([2 ** 33, 2 ** 45, Number.MAX_SAFE_INTEGER])('that claims %d passages is refused before room is made for them', async (rows) => {
    const { crc32: _, ...manifest } = JSON.parse(readFileSync(join(copy, 'manifest.json'), 'utf8')) as Record<string, unknown>;
    const forged = { ...manifest, rows };
    writeFileSync(join(copy, 'manifest.json'), JSON.stringify({ ...forged, crc32: crc32(JSON.stringify(forged)) }));
    await expect(contentsOf(copy)).rejects.toThrow(/passages\.starts has \d+ bytes/);
  });

  it.each(['manifest.json', 'passages.jsonl', 'passages.starts', 'shard-0.bin'])(
    'with a pipe or a device in place of %s is refused in one line (2)',
    async (name) => {
      const device = join(folder, `device-${made}`);
      cpSync(copy, device, { recursive: true });
      for (const path of [copy, device]) rmSync(join(path, name));
      spawnSync('mkfifo', [join(copy, name)]);
      symlinkSync('/dev/zero', join(device, name));
      for (const [path, kind] of [
        [copy, 'a pipe'],
        [device, 'a device'],
      ] as const) {
        const { code, stderr } = await host.run('vf-serve', ['retrieve', '--corpus', path, '--port', '0'], { cwd: folder, env: {} });
        expect(code).toBe(2);
        expect(stderr).toMatch(new RegExp(`^vf-serve: [^\\n]*${name} is ${kind}[^\\n]*\\n$`));
      }
    },
  );
});
