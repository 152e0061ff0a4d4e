/** `npm run parity` as tests: every vector file of the golden directory has an adapter, and the port agrees with upstream on every case. */
import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkDirectories } from './parity/check-directories.ts';
import { checkFile, type FileResult } from './parity/check-file.ts';
import { closeSandbox } from './parity/sandbox.ts';
import { isSame, listVectors, playCase } from './parity/vectors.ts';

const directory = path.join(import.meta.dirname, 'golden/parity');
const names = await listVectors(directory);

afterAll(closeSandbox);

const played = new Map<string, Promise<FileResult>>();
function checkOnce(name: string): Promise<FileResult> {
  if (!played.has(name)) played.set(name, checkFile(directory, name));
  return played.get(name)!;
}

describe('parity with upstream', () => {
  it('finds the vector files', () => {
    expect(names.length).toBeGreaterThan(20);
    expect(names).not.toContain('manifest');
  });

  it.each(names)('%s', async (name) => {
    const file = await checkOnce(name);
    expect(file.problem).toBeNull();
    expect(file.size).toBeGreaterThan(0);
    if (file.skipped) return;
    const failed = file.cases.filter((c) => c.outcome === 'failed');
    expect({ failed: failed.length, first: failed.slice(0, 3) }).toEqual({ failed: 0, first: [] });
    expect(file.cases.filter((c) => c.outcome === 'passed').length).toBeGreaterThan(file.size / 2);
  });

  it('lists its declared differences by name in the environment’s README, and no others', async () => {
    const readme = await readFile(path.join(import.meta.dirname, '../environments/search-r1/README.md'), 'utf8');
    const files = await Promise.all(names.map(checkOnce));
    const declared = files.flatMap((file, i) => file.cases.filter((c) => c.outcome === 'declared').map((c) => c.id.replace(`${names[i]}-`, '')));
    const listed = [...readme.matchAll(/`(?:retrieve_endpoint)?-(\d{4})`/g)].map(([, id]) => id);
    expect(declared.length).toBeGreaterThan(0);
    expect(listed).toEqual(declared);
  });

  it('fails a file without an adapter', async () => {
    const file = await checkFile(path.join(directory, '../../models/nano-base'), 'config');
    expect(file.problem).toMatch(/cases/);
  });
});

describe.each(['grpo-000', 'search-o1', 'self-play', 'visual-rag', 'random-rows'])('parity with the vectors of %s', (folder) => {
  const vectors = path.join(import.meta.dirname, 'golden', folder);

  // `npm run parity` plays the same files and ends with 1 if a case fails.
  it(
    'plays every file, and declares no difference but those that the README next to them names',
    { tags: ['self-play', 'search-o1'].includes(folder) ? 'long' : [], timeout: 180_000 },
    async () => {
      const files = await listVectors(vectors);
      expect(files.length).toBeGreaterThan(0);
      const declared: string[] = [];
      for (const name of files) {
        const file = await checkFile(vectors, name);
        expect({ name, problem: file.problem, skipped: file.skipped }).toEqual({ name, problem: null, skipped: false });
        const failed = file.cases.filter((c) => c.outcome === 'failed');
        expect({ name, failed: failed.length, first: failed.slice(0, 3) }).toEqual({ name, failed: 0, first: [] });
        declared.push(...file.cases.filter((c) => c.outcome === 'declared').map((c) => c.id));
      }
      const readme = await readFile(path.join(vectors, 'README.md'), 'utf8');
      expect([...readme.matchAll(/^- `([\w-]+-\d{3,4})`/gm)].map(([, id]) => id)).toEqual(declared);
    },
  );
});

describe('scripts/parity.ts', () => {
  const script = path.join(import.meta.dirname, '../scripts/parity.ts');
  const run = async (...args: string[]) => {
    let stdout = '';
    const status = await checkDirectories(args, { print: (text) => void (stdout += text), complain: () => {} });
    return { status, stdout };
  };
  const vectors = (file: string, cases: unknown) => writeFile(path.join(folder, file), JSON.stringify({ cases }));
  let folder: string;
  beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'parity-'))));
  afterAll(() => rm(folder, { recursive: true }));

  it('counts cases of any directory and fails wrong ones and files that nothing answers for', async () => {
    await vectors('normalize_answer.json', [
      { id: 'a', input: { s: 'The cat' }, output: 'cat', tags: [] },
      { id: 'b', input: { s: 'The cat' }, output: 'the cat', tags: ['upstream_bug'] },
    ]);
    await vectors('google_snippet.json', [{ id: 'c', input: {}, output: {}, tags: [] }]);
    await vectors('something_new.json', [{ id: 'd', input: {}, output: {}, tags: [] }]);
    await writeFile(path.join(folder, 'manifest.json'), 'not a vector file');
    const { status, stdout } = await run(folder);
    expect(status).toBe(1);
    expect(stdout).toContain('normalize_answer: 1/2\n  b: output: expected "the cat", got "cat"\n');
    expect(stdout).toContain('There is no adapter for something_new.json');
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('1 passed, 2 failed, 1 skipped');
  }, 180_000);

  it('ends with 0 when everything passes, 1 when there was nothing to play, 2 on a wrong call', async () => {
    await rm(folder, { recursive: true });
    await mkdir(folder);
    expect(await run(folder)).toMatchObject({ status: 1, stdout: expect.stringMatching(/0 passed, 1 failed, 0 skipped\n$/) });
    await vectors('postprocess_responses.json', [{ id: 'a', input: { response: 'x' }, output: 'x', tags: [] }]);
    expect(await run(folder)).toMatchObject({ status: 0, stdout: 'postprocess_responses: 1/1\n1 passed, 0 failed, 0 skipped\n' });
    expect((await run()).status).toBe(2);
    const nowhere = [folder, path.join(folder, 'nowhere')];
    expect((await run(...nowhere)).status).toBe(2);
    const { status, stderr } = spawnSync(process.execPath, ['--conditions=vf-search-source', script, ...nowhere], {
      encoding: 'utf8',
      timeout: 120_000,
    });
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining('is not a directory of vector files') });
  }, 180_000);
});

describe('isSame', () => {
  it('distinguishes values, keys and order', () => {
    expect(isSame({ a: [1, 'x', null] }, { a: [1, 'x', null] })).toBe(true);
    expect(isSame({ a: 1 }, { a: 1, b: null })).toBe(false);
    expect(isSame({ a: 1, b: undefined }, { a: 1 })).toBe(false);
    expect(isSame([1, 2], [2, 1])).toBe(false);
    expect(isSame([], {})).toBe(false);
    expect(isSame(null, undefined)).toBe(false);
    expect(isSame(0, false)).toBe(false);
    expect(isSame(NaN, 'NaN')).toBe(true);
    expect(isSame(0.1 + 0.2, 0.3)).toBe(true);
    expect(isSame(1, 1.000001)).toBe(false);
  });
});

describe('playCase', () => {
  const testCase = { id: 'x', input: {}, output: 1, tags: ['upstream_bug'] };

  it('passes what agrees, even where a difference would be declared', async () => {
    const result = await playCase({ actual: () => 1, declared: () => 'known' }, testCase);
    expect(result.outcome).toBe('passed');
  });

  it('counts a declared difference apart from a failure', async () => {
    expect((await playCase({ actual: () => 2, declared: () => 'known' }, testCase)).outcome).toBe('declared');
    expect(await playCase({ actual: () => 2 }, testCase)).toEqual({ id: 'x', outcome: 'failed', detail: 'output: expected 1, got 2' });
  });

  it('fails a case whose adapter throws', async () => {
    const adapter = {
      actual: () => {
        throw new Error('broken');
      },
      declared: () => 'known',
    };
    expect(await playCase(adapter, testCase)).toMatchObject({ outcome: 'failed', detail: expect.stringContaining('broken') });
  });
});
