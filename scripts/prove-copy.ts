/**
 * Proves that the bundled model nano-copy learns in environments that it has never seen, each in at most two minutes with Node alone: names that pre-training
 * cannot contain, questions that need two searches, an environment as `vf-init --tools` writes it. scripts/proof/copy-proofs.ts has the bars.
 *
 *   npm run prove:copy                      every environment, three seeds (each with a world of its own) and a control each; writes docs/results/copy.*
 *   npm run prove:copy -- --quick           one seed, few steps, no control; does not write to docs/
 *
 * --only one-hop   --seeds 0,1,2   --model DIR   --output DIR   --set key=value (for vf-train)
 * --strict-time    judges the time too; only for an idle machine with two cores
 */
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { COPY_PROOFS, PRESET } from './proof/copy-proofs.ts';
import { type CopyRun, judgeCopyRun, reportCopy } from './proof/copy-page.ts';
import { ROOT, trainOnce } from './proof/training-proof.ts';

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    seeds: { type: 'string' },
    model: { type: 'string' },
    output: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    'strict-time': { type: 'boolean', default: false },
  },
});
const { quick } = given;
const chosen = COPY_PROOFS.filter(({ name }) => given.only === undefined || name === given.only);
if (chosen.length === 0) throw new Error(`--only ${given.only} is none of ${COPY_PROOFS.map(({ name }) => name).join(', ')}.`);
const seeds = (given.seeds ?? (quick ? '0' : '0,1,2')).split(',').map(Number);
const output = given.output ?? join(ROOT, quick || given.only !== undefined ? 'outputs/prove-copy' : 'docs/results');
const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
symlinkSync(process.execPath, join(path, 'node'));

const runs: CopyRun[] = [];
for (const proof of chosen) {
  const play = async (label: string, seed: number, settings: readonly string[]): Promise<void> => {
    const world = mkdtempSync(join(tmpdir(), 'vf-strange-'));
    const all = [
      ...(quick ? [`steps=${proof.quickSteps}`] : []),
      ...(given.model === undefined ? [] : [`model.path=${given.model}`]),
      ...settings,
      ...given.set,
    ];
    const args = [
      ...proof.make(world, seed),
      '--preset',
      PRESET,
      '--seed',
      String(seed),
      '-o',
      join(ROOT, 'outputs/prove-copy'),
      ...all.flatMap((set) => ['--set', set]),
    ];
    // Without node flags, so that the compiled package runs, as for users.
    const run = await trainOnce({
      label: `${proof.name}, ${label}`,
      isControl: settings.length > 0,
      args,
      nodeFlags: [],
      env: { PATH: path, HOME: process.env['HOME'] },
    });
    runs.push({ ...run, proof });
  };
  for (const seed of seeds) await play(`seed ${seed}`, seed, []);
  // A policy that always fails gives groups without differences: steps without an update, which would stop the run before its last evaluation.
  if (!quick)
    for (const seed of seeds)
      await play(`negated advantages, seed ${seed}`, seed, ['algorithm.negate_advantages=true', 'guards.max_skipped_steps=1000']);
}
reportCopy({ output, runs, verdicts: runs.flatMap((run) => judgeCopyRun(run, { quick, isStrict: given['strict-time'] })) });
