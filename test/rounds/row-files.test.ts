import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { countRows } from '../../src/rounds/row-files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-row-files-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('countRows', () => {
  it('counts neither blank lines nor a missing file', async () => {
    const path = join(folder, 'rows.jsonl');
    writeFileSync(path, '\n{"id": "a"}\n  \n{"id": "b"}');
    expect(await countRows(path)).toBe(2);
    expect(await countRows(join(folder, 'other.jsonl'))).toBe(0);
  });
});
