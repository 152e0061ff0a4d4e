import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { bundledPath, datasetsFolder, readBundledManifest } from '../../src/data/bundled.ts';
import { packageRoot } from '../../src/data/package-root.ts';

const linesIn = (bytes: Buffer): number => bytes.toString().split('\n').length - 1;

describe('packageRoot', () => {
  it('is the folder of this package', () => {
    expect(packageRoot()).toBe(join(import.meta.dirname, '../..'));
  });
});

describe('datasets/MANIFEST.json', () => {
  it('describes every data file, byte for byte', async () => {
    const { datasets } = await readBundledManifest();
    const described = Object.values(datasets).flatMap((set) => set.files);
    const present = ['datasets', 'packages/vf-search-models/datasets']
      .flatMap((folder) => readdirSync(join(packageRoot(), folder), { recursive: true, encoding: 'utf8' }))
      .filter((path) => /\.(jsonl|br|tsv|png)$/.test(path));
    expect(described.map((f) => f.path).toSorted()).toEqual(present.toSorted());
    expect(present).toHaveLength(94);
    for (const [name, set] of Object.entries(datasets))
      for (const file of set.files) {
        const bytes = readFileSync(join(datasetsFolder(set, name), file.path));
        const found = {
          bytes: bytes.length,
          rows: file.path.endsWith('.png') ? null : linesIn(file.path.endsWith('.br') ? brotliDecompressSync(bytes) : bytes),
          sha256: createHash('sha256').update(bytes).digest('hex'),
        };
        expect({ path: file.path, ...found }).toEqual(file);
      }
  });

  it('gives a licence, an attribution and sources for every set', async () => {
    const { datasets } = await readBundledManifest();
    expect(Object.entries(datasets).map(([name, set]) => [name, set.license])).toEqual([
      ['nq-mini', 'CC-BY-SA-3.0'],
      ['fact-world', 'Apache-2.0'],
      ['rule-lookup', 'Apache-2.0'],
      ['worked-problems', 'Apache-2.0'],
      ['mini-python', 'Apache-2.0'],
      ['python-programs', 'Apache-2.0'],
      ['deck-mini', 'Apache-2.0'],
      ['page-world', 'Apache-2.0'],
    ]);
    for (const set of Object.values(datasets)) {
      expect(set.attribution).not.toBe('');
      expect(set.sources.length).toBeGreaterThan(0);
      for (const path of [...Object.values(set.splits), set.corpus ?? []].flat()) expect(set.files.map((f) => f.path)).toContain(path);
    }
  });
});

describe('bundledPath', () => {
  it('refuses a file that is not the one of the manifest', async () => {
    const set = (await readBundledManifest()).datasets['fact-world']!;
    await expect(bundledPath(set, set.corpus!)).resolves.toMatchObject({ path: join(packageRoot(), 'datasets/fact-world/corpus.jsonl') });
    const changed = { ...set, files: set.files.map((f) => ({ ...f, bytes: f.bytes + 1 })) };
    await expect(bundledPath(changed, set.corpus!)).rejects.toThrow(/bytes, got \d+: it was changed or truncated/);
    const gone = { ...set, files: [{ path: 'fact-world/gone.jsonl', rows: 0, bytes: 0, sha256: '' }] };
    await expect(bundledPath(gone, 'fact-world/gone.jsonl')).rejects.toThrow(/gone\.jsonl is missing\. Reinstall the package/);
    await expect(bundledPath(set, '../package.json')).rejects.toThrow('no entry for ../package.json');
  });
});
