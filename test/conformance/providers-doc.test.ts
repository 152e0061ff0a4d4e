import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { providersDoc } from '../../scripts/providers-doc.ts';

it('docs/providers.md is what scripts/providers-doc.ts writes: run it after a change of the recorded replies', () => {
  expect(readFileSync(join(import.meta.dirname, '../../docs/providers.md'), 'utf8')).toBe(providersDoc());
});
