/** Evaluates search-r1 in code with the built-in baseline. For other policies, use `vf-search/clients/vllm-tokens` or `vf-search/clients/openai-chat`. */
import { loadEnvironment, runRollouts } from 'vf-search';
import { ExtractiveClient } from 'vf-search/clients/extractive';

const environment = await loadEnvironment('search-r1', { data_limit: 20 });
const rows = [...environment.eval].map((row) => ({ row, indices: [0] }));
const groups = runRollouts(rows, {
  environment,
  client: new ExtractiveClient({ seed: 0 }),
  sampling: { temperature: 0, topP: 1 },
  maxTokens: null,
  maxConcurrent: 8,
  timeoutMs: 60_000,
  seed: 0,
  signal: AbortSignal.timeout(120_000),
});

let right = 0;
let played = 0;
for await (const {
  rollouts: [rollout],
} of groups) {
  const { rolloutId, reward, metrics, stop, error } = rollout!;
  // A failed rollout has no reward: leave it out instead of counting it as 0.
  if (error !== null) console.error(`${rolloutId} failed: ${error.chain}`);
  else {
    played += 1;
    right += metrics['em'] ?? 0;
    console.log(`${rolloutId}: reward ${reward}, ${metrics['searches']} search, ${stop}`);
  }
}
console.log(`exact match ${right} of ${played}`);
await environment.close();
if (played !== 20) process.exitCode = 1;
