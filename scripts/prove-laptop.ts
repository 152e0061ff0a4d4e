/**
 * Proves that the nano model learns in half a minute with Node alone. Runs `npx vf-train search-r1 --preset laptop` as a new user would, once per seed and once
 * with negated advantages, with only Node on the PATH. Judges held-out reward, time from command to result, memory, and that trainer and server give every
 * token the same log-prob.
 *
 *   npm run prove:laptop                three seeds and the control; writes docs/results/
 *   npm run prove:laptop -- --quick     one seed and the control; does not write to docs/ and does not judge the time, so the machine may be shared
 *
 * --seeds 0,1,2   --output DIR   --set key=value (for vf-train)
 * --world DIR     another world with the same names: corpus.jsonl, train.jsonl and heldout.jsonl, written by scripts/nano/world.py
 */
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { judgeReward, type ProvenRun, reportProof, ROOT, trainOnce, type Verdict, worldSettings, worst } from './proof/training-proof.ts';

const BARS = { start: 0.3, end: 0.9, seconds: 30, steps: 30, memoryMb: 400 };

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seeds: { type: 'string' },
    output: { type: 'string' },
    world: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
  },
});
const seeds = (given.seeds ?? (given.quick ? '0' : '0,1,2')).split(',').map(Number);
const output = given.output ?? join(ROOT, given.quick ? 'outputs/prove-laptop' : 'docs/results');

const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
symlinkSync(process.execPath, join(path, 'node'));
const env = { PATH: path, HOME: process.env['HOME'] };
const sets = [...worldSettings(given.world), ...given.set].flatMap((setting) => ['--set', setting]);

const runs: ProvenRun[] = [];
for (const seed of seeds) runs.push(await prove(`seed ${seed}`, seed, []));
runs.push(await prove('negated advantages', seeds[0]!, ['--set', 'algorithm.negate_advantages=true']));
reportProof({
  output,
  name: 'laptop',
  title: 'It learns on a laptop, in half a minute',
  heading: 'Nano model, fact world, GRPO with LoRA in Node alone',
  script: 'prove:laptop',
  intro: ({ command, machine }) => [
    `Written by \`${command}\` on ${machine}: \`npx vf-train search-r1 --preset laptop\` with Node alone, no Python, no GPU, no server. Held-out reward (exact match, sampled at temperature 1)`,
    'of the nano model on the fact world, by training step. Seconds are those of the whole command without the startup of npx. The control is the same run with negated advantages.',
  ],
  runs,
  verdicts: runs.flatMap(judge),
  goals: [
    { value: BARS.end, label: 'goal' },
    { value: BARS.start, label: 'start at most' },
  ],
});

function prove(label: string, seed: number, flags: readonly string[]): Promise<ProvenRun> {
  const args = ['search-r1', '--preset', 'laptop', '--seed', String(seed), '-o', join(ROOT, 'outputs/prove-laptop'), ...flags, ...sets];
  // Without node flags, so that the compiled package runs, as for users.
  return trainOnce({ label, isControl: flags.length > 0, args, nodeFlags: [], env });
}

function judge(run: ProvenRun): Verdict[] {
  const { label, isControl, seconds, peakMemoryBytes, rows } = run;
  const reward = judgeReward(run, BARS);
  if (isControl) return [reward];
  const difference = worst(rows, 'log_prob_difference_max');
  const steps = Math.max(...rows.map(({ step }) => step));
  const megabytes = peakMemoryBytes === null ? null : peakMemoryBytes / 1e6;
  return [
    reward,
    {
      ok: (given.quick || seconds <= BARS.seconds) && steps <= BARS.steps,
      text: `${label}: ${seconds.toFixed(1)} s from command to result, ${steps} steps; at most ${BARS.seconds} s and ${BARS.steps} steps`,
    },
    { ok: difference === 0, text: `${label}: largest |Δ log-prob| of a token, trainer to server, ${difference}; must be 0` },
    ...(megabytes === null
      ? []
      : [{ ok: megabytes <= BARS.memoryMb, text: `${label}: ${Math.round(megabytes)} MB at most at once; at most ${BARS.memoryMb}` }]),
  ];
}
