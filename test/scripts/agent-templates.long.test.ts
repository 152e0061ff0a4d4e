/**
 * The agents of `vf-init --agent` in a folder outside the clone, from the packed package, with their packages from npm.
 * @module-tag long
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { AGENT_KINDS } from '../../src/templates/agent-kinds.ts';

const ROOT = join(import.meta.dirname, '../..');

describe('vf-init --agent', () => {
  it.each(AGENT_KINDS)(
    'writes an agent of the kind %s that is evaluated and trained where the package is installed',
    { timeout: 900_000 },
    async (kind) => {
      const { stdout } = await promisify(execFile)(join(ROOT, 'scripts/check-agent-templates.sh'), [kind], { cwd: ROOT });
      expect(stdout).toMatch(new RegExp(`^${kind}: evaluated; trained 2 steps; rollouts \\d+ finished, 0 failed; .* mean 0, max 0 nats`));
    },
  );
});
