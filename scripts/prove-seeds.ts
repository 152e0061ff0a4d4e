/**
 * Proves that the environments beside search-r1 learn, each with Node alone: `npx vf-train <environment> --preset laptop` as a new user would
 * run it, once per seed, in further worlds, with other algorithms, and once with negated advantages. scripts/proof/seed-proofs.ts has the runs and the bars.
 *
 *   npm run prove:seeds                     every environment, three seeds; writes docs/results/seeds.*
 *   npm run prove:seeds -- --quick          one seed and few steps; does not write to docs/
 *
 * --only grpo-000   --seeds 0,1,2   --output DIR   --set key=value (for vf-train)
 * --strict-time     judges the time too; only for an idle machine with two cores
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { judgeSeedRun, type SeedRun } from './proof/judge-seeds.ts';
import { SEED_PROOFS, type SeedProof } from './proof/seed-proofs.ts';
import { reportSeeds } from './proof/seeds-page.ts';
import { ROOT, trainOnce, worldSettings } from './proof/training-proof.ts';

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    seeds: { type: 'string' },
    output: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    'strict-time': { type: 'boolean', default: false },
  },
});
const { quick } = given;
const chosen = SEED_PROOFS.filter(({ environment }) => given.only === undefined || environment === given.only);
if (chosen.length === 0) throw new Error(`--only ${given.only} is none of ${SEED_PROOFS.map(({ environment }) => environment).join(', ')}.`);
const seeds = (given.seeds ?? (quick ? '0' : '0,1,2')).split(',').map(Number);
const output = given.output ?? join(ROOT, quick || given.only !== undefined ? 'outputs/prove-seeds' : 'docs/results');

const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
symlinkSync(process.execPath, join(path, 'node'));

const runs: SeedRun[] = [];
for (const proof of chosen) for (const run of await prove(proof)) runs.push(run);
await reportSeeds({ output, runs, verdicts: runs.flatMap((run) => judgeSeedRun(run, { quick, isStrict: given['strict-time'] })) });

async function prove(proof: SeedProof): Promise<SeedRun[]> {
  const proven: SeedRun[] = [];
  const play = async (kind: SeedRun['kind'], label: string, seed: number, settings: readonly string[], end?: number): Promise<void> => {
    const sets = [...(quick ? [`steps=${proof.quickSteps}`] : []), ...settings, ...given.set].flatMap((setting) => ['--set', setting]);
    const args = [proof.environment, '--preset', 'laptop', '--seed', String(seed), '-o', join(ROOT, 'outputs/prove-seeds'), ...sets];
    // Without node flags, so that the compiled package runs, as for users.
    const run = await trainOnce({
      label: `${proof.environment}, ${label}`,
      isControl: kind === 'control',
      args,
      nodeFlags: [],
      env: { PATH: path, HOME: process.env['HOME'] },
    });
    proven.push({ ...run, proof, kind, end: end ?? null });
  };
  for (const seed of seeds) await play('laptop', `seed ${seed}`, seed, []);
  if (!quick) {
    for (const world of proof.worlds) await play('laptop', `world ${world}`, seeds[0]!, worldSettings(makeWorld(world)));
    for (const { label, settings, end } of proof.variants) await play('variant', label, seeds[0]!, settings, end);
  }
  await play('control', 'negated advantages', seeds[0]!, ['algorithm.negate_advantages=true']);
  return proven;
}

function makeWorld(seed: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'vf-world-'));
  const args = [join(ROOT, 'scripts/nano/world.py'), '--out', folder, '--seed', String(seed)];
  const { status, error } = spawnSync('python3', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw new Error(`python3 ${args.join(' ')} failed.`, { cause: error });
  return folder;
}
