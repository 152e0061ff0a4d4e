/** torch's autograd in float64 on every loss: value, gradient of each token, metrics; and plain formulas of advantages. */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkFile } from '../../parity/check-file.ts';
import { listVectors } from '../../parity/vectors.ts';

const directory = path.join(import.meta.dirname, '../../golden/losses');
const files = await Promise.all((await listVectors(directory)).map(async (name) => [name, await checkFile(directory, name)] as const));

describe('golden losses', () => {
  it.each(files)('%s equals torch', (_, file) => {
    expect(file.problem).toBeNull();
    const failed = file.cases.filter((c) => c.outcome !== 'passed');
    expect({ failed: failed.length, first: failed.slice(0, 3) }).toEqual({ failed: 0, first: [] });
  });

  it('are 799 cases of 18 files, none skipped', () => {
    expect(files.length).toBe(18);
    expect(files.reduce((sum, [, file]) => sum + file.cases.length, 0)).toBe(799);
  });
});
