/** Every change of what the package exports is seen here as a difference. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { publicSurface } from '../scripts/api/public-surface.ts';

const folder = join(import.meta.dirname, 'api');
const { reports, counts, faults } = publicSurface();

describe('the public surface', () => {
  it('is what test/api shows; `node scripts/api-report.ts` rewrites it', () => {
    expect(readdirSync(folder).toSorted()).toEqual([...reports.keys()].toSorted());
    for (const [file, text] of reports)
      expect(readFileSync(join(folder, file), 'utf8'), `test/api/${file} differs. If the change is meant: node scripts/api-report.ts`).toBe(text);
  });

  it('has a docstring for every name of the main entry, with an example for what is called, and a written return type for every function', () => {
    expect(faults).toEqual([]);
  });

  it('keeps the main entry on one screen', () => {
    expect(counts.get('.')).toBeLessThanOrEqual(82);
  });
});
