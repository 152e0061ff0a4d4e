/** The vectors of UltraRAG's pipelines, tools, prompts and benchmarks: the port agrees on every case but those declared by tag. */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkFile } from '../../scripts/parity/check-file.ts';
import { readVectors } from '../../scripts/parity/vectors.ts';

const directory = path.join(import.meta.dirname, '../golden/search-o1');

/** Cases that may differ, by their tag. */
const DECLARED: Readonly<Record<string, string | null>> = {
  ultrarag_pipelines: null,
};

describe('parity with UltraRAG', () => {
  it.each(Object.entries(DECLARED))('%s', async (name, tag) => {
    const { cases, problem } = await checkFile(directory, name);
    expect(problem).toBeNull();
    const failed = cases.filter(({ outcome }) => outcome === 'failed');
    expect({ failed: failed.length, first: failed.slice(0, 3) }).toEqual({ failed: 0, first: [] });
    const vectors = await readVectors(directory, name);
    const declared = cases.flatMap(({ outcome }, i) => (outcome === 'declared' ? [vectors[i]!] : []));
    expect(declared.filter(({ tags }) => tag === null || !tags.includes(tag))).toEqual([]);
    expect(cases.filter(({ outcome }) => outcome === 'passed').length).toBeGreaterThan(cases.length / 2);
  });
});
