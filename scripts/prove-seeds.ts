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
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { judgeSeedRun, type SeedRun } from './proof/judge-seeds.ts';
import { playSeeds } from './proof/play-seeds.ts';
import { SEED_PROOFS } from './proof/seed-proofs.ts';
import { reportSeeds } from './proof/seeds-page.ts';
import { ROOT } from './proof/training-proof.ts';

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

const runs: SeedRun[] = [];
const settings = given.set;
for (const proof of chosen)
  for (const run of await playSeeds(proof, { quick, seeds, settings, output: join(ROOT, 'outputs/prove-seeds') })) runs.push(run);
reportSeeds({ output, runs, verdicts: runs.flatMap((run) => judgeSeedRun(run, { quick, isStrict: given['strict-time'] })) });
