/**
 * Proves that one policy learns from programs that it invents: `npx vf-train self-play-code --preset laptop` as a new user would run it, with Node alone, once per
 * seed; and what is left of it without its parts. scripts/proof/self-play-proofs.ts has the bars.
 *
 *   npm run prove:self-play                 three seeds and all controls, some 25 minutes; writes docs/results/self-play.*
 *   npm run prove:self-play -- --quick      one seed and few steps, and negated advantages; does not write to docs/
 *
 * --seeds 0,1,2   --output DIR   --set key=value (for vf-train)   --only laptop,short,negated,long,frozen,grammar
 * --strict-time     judges the time too; only for an idle machine with two cores
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { isControl, judgeFrozen, judgeSelfPlay, type SelfPlayKind, type SelfPlayRun } from './proof/self-play-proofs.ts';
import { reportSelfPlay } from './proof/self-play-page.ts';
import { ROOT, trainOnce, type Verdict } from './proof/training-proof.ts';

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: 'laptop,short,negated,long,frozen,grammar' },
    seeds: { type: 'string' },
    output: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    'strict-time': { type: 'boolean', default: false },
  },
});
const { quick } = given;
const only = new Set(quick ? ['laptop', 'negated'] : given.only.split(','));
const seeds = (given.seeds ?? (quick ? '0' : '0,1,2')).split(',').map(Number);
const output = given.output ?? join(ROOT, quick ? 'outputs/prove-self-play' : 'docs/results');
const LONG_STEPS = 150;
const SHORT_STEPS = 18;
const QUICK_STEPS = 6;
/** So small that no weight changes in float32: what is sampled is what the base proposes. */
const NO_LEARNING = 'optimizer.learning_rate=1e-30';

const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
symlinkSync(process.execPath, join(path, 'node'));
const runs: SelfPlayRun[] = [];

for (const seed of seeds) if (only.has('laptop')) await play('laptop', `seed ${seed}`, seed, quick ? [`steps=${QUICK_STEPS}`] : []);
if (only.has('short')) await play('short', `${SHORT_STEPS} steps`, seeds[0]!, [`steps=${SHORT_STEPS}`]);
if (only.has('negated')) await play('negated', 'negated', seeds[0]!, ['algorithm.negate_advantages=true', `steps=${quick ? QUICK_STEPS : 20}`]);
if (only.has('long')) await play('long', `${LONG_STEPS} steps`, seeds[0]!, [`steps=${LONG_STEPS}`, 'evaluation.every=30']);
if (only.has('frozen')) {
  const base = await train('proposals of the base', seeds[0]!, [
    `steps=${LONG_STEPS}`,
    NO_LEARNING,
    'evaluation.every=0',
    'rollouts.rollouts_per_example=2',
  ]);
  await play('frozen', `frozen, ${LONG_STEPS} steps`, seeds[0]!, [
    `steps=${LONG_STEPS}`,
    'evaluation.every=30',
    proposalsOf(join(base.directory, 'source/programs.jsonl')),
  ]);
}
if (only.has('grammar')) await play('grammar', 'grammar', seeds[0]!, ['evaluation.every=20', proposalsOf(drawnPrograms())]);

const long = runs.find(({ kind }) => kind === 'long');
const frozen = runs.find(({ kind }) => kind === 'frozen');
const verdicts: Verdict[] = runs.flatMap((run) => judgeSelfPlay(run, { quick, isStrict: given['strict-time'] }));
if (long !== undefined && frozen !== undefined) verdicts.push(...judgeFrozen(long, frozen));
reportSelfPlay({ output, runs, verdicts });

async function play(kind: SelfPlayKind, label: string, seed: number, settings: readonly string[]): Promise<void> {
  runs.push({ ...(await train(label, seed, settings, isControl(kind))), kind });
}

function train(label: string, seed: number, settings: readonly string[], control = false): ReturnType<typeof trainOnce> {
  const sets = [...settings, ...given.set].flatMap((setting) => ['--set', setting]);
  const args = ['self-play-code', '--preset', 'laptop', '--seed', String(seed), '-o', join(ROOT, 'outputs/prove-self-play'), ...sets];
  // Without node flags, so that the compiled package runs, as for users.
  return trainOnce({ label, isControl: control, args, nodeFlags: [], env: { PATH: path, HOME: process.env['HOME'] } });
}

function proposalsOf(file: string): string {
  return `environment.args.proposals=${JSON.stringify(file)}`;
}

/** Programs of one to five statements, for as many steps as a run has. */
function drawnPrograms(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vf-programs-'));
  const args = [join(ROOT, 'scripts/nano-coder/tasks.py'), '--out', folder, '--seed', '7', '--held-out', '960'];
  const { status, error } = spawnSync('python3', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw new Error(`python3 ${args.join(' ')} failed.`, { cause: error });
  return join(folder, 'heldout.jsonl');
}
