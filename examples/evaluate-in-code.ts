/** Evaluates search-r1 in code. Without a policy the built-in baseline plays; for a server, add `policy: { baseUrl, model, apiKeyVar }`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { evaluate } from 'vf-search';

const output = await mkdtemp(join(tmpdir(), 'evaluate-in-code-'));
const { summary, rollouts } = await evaluate({ environment: 'search-r1', args: { data_limit: 20 }, rows: 20, temperature: 0, output });

// A failed rollout has an error and no reward. Leave it out instead of counting it as 0.
for (const { rolloutId, reward, metrics, stop, error } of rollouts)
  console.log(error === null ? `${rolloutId}: reward ${reward}, ${metrics['searches']} search, ${stop}` : `${rolloutId} failed: ${error.message}`);
console.log(`mean reward ${summary.reward?.value} of ${summary.rollouts.finished} rollouts`);
await rm(output, { recursive: true });
if (summary.rollouts.finished !== 20) process.exitCode = 1;
