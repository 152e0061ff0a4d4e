/** Trains the bundled model in code with Node alone, stops the run after two steps, and continues it: the laptop preset of search-r1, cut short. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'vf-search';

const output = mkdtempSync(join(tmpdir(), 'train-in-code-'));
const stop = new AbortController();

const stopped = await train({
  environment: 'search-r1',
  preset: 'laptop',
  steps: 4,
  settings: { rollouts: { examplesPerStep: 4 }, evaluation: { every: 0 } },
  output,
  signal: stop.signal,
  onStep: ({ step, steps, reward }) => {
    console.log(`step ${step} of ${steps}: reward ${reward}`);
    if (step === 2) stop.abort();
  },
});
console.log(`${stopped.reason} after ${stopped.step} steps; all work is in ${stopped.directory}`);

const trained = await train({ resume: stopped.directory, onStep: ({ step, reward }) => console.log(`step ${step}: reward ${reward}`) });
console.log(`${trained.reason}: the adapter is in ${trained.adapter}`);
if (trained.reason !== 'finished' || trained.metrics.length !== 4) process.exitCode = 1;
rmSync(output, { recursive: true });
