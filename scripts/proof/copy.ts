/**
 * The bundled model nano-copy learns in environments that it has never seen, each in at most two minutes with Node alone: names that pre-training cannot contain,
 * questions that need two searches, an environment written by `vf-init --tools`. Every seed has a world of its own, and a control.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { COPY_PROOFS, type CopyProof, PRESET, SECONDS } from './copy-proofs.ts';
import { rewardGoals } from './learning-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { beforeAndAfter, judgeEqual, runRecord, stepsOf } from './run-figures.ts';
import { type ProvenRun, setFlags, trainAlone } from './train-once.ts';

export interface CopyRun extends ProvenRun {
  readonly proof: CopyProof;
}

export const COPY: Proof = {
  about: 'a model that copies learns in environments that it has never seen, in two minutes each, with Node alone',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'model', 'set', 'strict-time'],
  parts: COPY_PROOFS.map(({ name }) => name),
  prove: proveCopy,
};

async function proveCopy(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, only, seeds } = options;
  const runs: CopyRun[] = [];
  for (const proof of COPY_PROOFS.filter(({ name }) => only?.includes(name) ?? true)) {
    for (const seed of seeds) runs.push(await play(proof, `seed ${seed}`, seed, [], options));
    // A policy that always fails gives groups without differences: steps without an update, which would stop the run before its last evaluation.
    const negated = ['algorithm.negate_advantages=true', 'guards.max_skipped_steps=1000'];
    if (!quick) for (const seed of seeds) runs.push(await play(proof, `negated advantages, seed ${seed}`, seed, negated, options));
  }
  return writeCopyPage(
    runs,
    runs.flatMap((run) => judgeCopyRun(run, options)),
    options,
  );
}

async function play(
  proof: CopyProof,
  label: string,
  seed: number,
  further: readonly string[],
  { quick, model, settings, runs: output }: ProofOptions,
): Promise<CopyRun> {
  const steps = quick ? [`steps=${proof.quickSteps}`] : [];
  const sets = setFlags([...steps, ...(model === undefined ? [] : [`model.path=${model}`]), ...further, ...settings]);
  const world = mkdtempSync(join(tmpdir(), 'vf-strange-'));
  const args = [...proof.make(world, seed), '--preset', PRESET, '--seed', String(seed), '-o', output, ...sets];
  return { ...(await trainAlone({ label: `${proof.name}, ${label}`, isControl: further.length > 0, args })), proof };
}

/** `quick`: few steps on a machine that may be busy; `isStrict`: the time counts. */
export function judgeCopyRun(run: CopyRun, { quick, isStrict }: Pick<ProofOptions, 'quick' | 'isStrict'>): Verdict[] {
  const { label, proof, isControl, seconds } = run;
  const [before, after] = beforeAndAfter(run, proof.metric);
  const moved = `${label}: right answers on held-out questions ${before.toFixed(3)} → ${after.toFixed(3)}`;
  if (isControl) return [{ ok: after <= before, text: `${moved}; must not rise` }, judgeEqual(run)];
  const end = quick ? proof.quickEnd : proof.end;
  const time = { ok: seconds <= SECONDS, text: `${label}: ${seconds.toFixed(1)} s from command to result; at most ${SECONDS} s` };
  return [
    { ok: before <= proof.start && after >= end, text: `${moved}; from at most ${proof.start} to at least ${end}` },
    ...(isStrict ? [time] : []),
    judgeEqual(run),
  ];
}

function writeCopyPage(runs: readonly CopyRun[], verdicts: readonly Verdict[], options: ProofOptions): readonly Verdict[] {
  const groups = [...Map.groupBy(runs, ({ proof }) => proof)];
  const ownLabel = ({ label, proof }: CopyRun) => label.replace(`${proof.name}, `, '');
  const plotted = groups.map(([proof, own]) => ({
    title: `${proof.name}: mean reward, held-out rows (faint: training batches)`,
    runs: own.map((run) => ({ label: ownLabel(run), rows: run.rows, control: run.isControl })),
    goals: rewardGoals(proof),
  }));
  const cells = (run: CopyRun) => {
    const moved = beforeAndAfter(run, run.proof.metric).map((value) => value.toFixed(3));
    return [ownLabel(run), moved.join(' → '), stepsOf(run), run.seconds.toFixed(0), run.cpuSeconds?.toFixed(0) ?? 'not measured'];
  };
  return writePage(options, {
    name: 'copy',
    title: 'A laptop model learns in environments that it has never seen',
    intro: [
      `Every run is \`npx vf-train ENVIRONMENT --preset ${PRESET}\` with Node alone, from \`nano-copy\`. Right answers are the share of sampled rollouts on held-out questions whose answer is exact, before the`,
      'first step and after the last. Every seed of the first two environments has a world of its own, of names that pre-training cannot contain (`scripts/proof/strange-world.ts`). Seconds are those of',
      'the whole command, on a machine that may be busy with other work; CPU seconds are those of all its threads.',
    ],
    plot: {
      svg: compareGroups(plotted, { heading: 'nano-copy in environments that it has never seen, GRPO with LoRA in Node alone' }),
      alt: 'Held-out reward by step',
    },
    body: groups.flatMap(([{ name, about }, own], i) => [
      ...(i === 0 ? [] : ['']),
      `## ${name}`,
      '',
      `${about.charAt(0).toUpperCase()}${about.slice(1)}.`,
      '',
      ...tableLines(['run', 'right answers', 'steps', 'seconds', 'CPU seconds'], own.map(cells)),
    ]),
    figures: { runs: runs.map((run) => runRecord(run, [run.proof.metric])) },
    verdicts,
  });
}
