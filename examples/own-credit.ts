/** Trains on an environment that rewards turns, with the built-in credit for turns and then with one of your own, and prints the held-out reward. Needs only Node. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'vf-search';

const module = (name: string) => join(import.meta.dirname, 'credit', name);
const output = mkdtempSync(join(tmpdir(), 'own-credit-'));

const credits = { 'the built-in one': { use: 'turns' }, 'one of your own': { use: module('leave-one-out-by-turn.ts'), args: { gamma: 0.9 } } };
for (const [name, advantage] of Object.entries(credits)) {
  const { summary } = await train({
    environment: module('environment.ts'),
    preset: 'laptop',
    steps: 4,
    settings: {
      rollouts: { examplesPerStep: 4, rolloutsPerExample: 8, maxTokens: 24 },
      evaluation: { every: 4, examples: 8, rolloutsPerExample: 1 },
      algorithm: { advantage },
    },
    output,
  });
  const { start, end } = summary.heldOut!;
  console.log(`${name}: held-out reward ${start.value} before, ${end.value} after ${summary.step} steps`, summary.credit);
  if (end.value <= start.value) process.exitCode = 1;
}
rmSync(output, { recursive: true });
