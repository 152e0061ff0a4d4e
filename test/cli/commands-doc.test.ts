import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandsDocument } from '../../scripts/commands-doc.ts';

const committed = readFileSync(join(import.meta.dirname, '../../docs/commands.md'), 'utf8');

describe('docs/commands.md', () => {
  it('is what the declarations say; run scripts/commands-doc.ts after a change', () => {
    expect(committed).toBe(commandsDocument());
  });
});
