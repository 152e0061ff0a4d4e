/** The other environments learn with Node alone, each with its preset `laptop`. seed-proofs.ts has the runs and their bars. */
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { judgeSeedRun, type SeedRun } from './judge-seeds.ts';
import { rewardGoals } from './learning-page.ts';
import { playSeeds } from './play-seeds.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { beforeAndAfter, runRecord, type RunRecord, stepsOf, worst } from './run-figures.ts';
import { SEED_PROOFS, type SeedProof } from './seed-proofs.ts';

export const SEEDS: Proof = {
  about: 'the environments grpo-000 and search-o1 learn, with Node alone',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time'],
  parts: SEED_PROOFS.map(({ environment }) => environment),
  prove: proveSeeds,
};

async function proveSeeds(options: ProofOptions): Promise<readonly Verdict[]> {
  const runs: SeedRun[] = [];
  for (const proof of SEED_PROOFS.filter(({ environment }) => options.only?.includes(environment) ?? true))
    runs.push(...(await playSeeds(proof, options)));
  const groups = [...Map.groupBy(runs, ({ proof }) => proof)];
  return writePage(options, {
    name: 'seeds',
    title: 'The other environments learn, on a laptop',
    intro: [
      'Every run is `npx vf-train <environment> --preset laptop` with Node alone, no Python, no GPU, no server. Held-out rows, sampled at temperature 1, before the first step and after the last. Seconds are those of',
      'the whole command without the startup of npx, on a machine that may be busy with other work; CPU seconds are those of all its threads. |Δ log-prob| is the largest difference of a token between',
      'trainer and sampler.',
    ],
    plot: { svg: plot(groups), alt: 'Held-out reward by step' },
    body: groups.flatMap(([proof, own], i) => [
      ...(i === 0 ? [] : ['']),
      `## ${proof.environment}`,
      '',
      `${proof.setting}.`,
      '',
      ...seedTable(proof, own),
      ...variantLines(proof, own),
    ]),
    figures: { runs: runs.map(seedRecord) },
    verdicts: runs.flatMap((run) => judgeSeedRun(run, options)),
  });
}

function ownLabel({ label, proof }: SeedRun): string {
  return label.replace(`${proof.environment}, `, '');
}

function plot(groups: readonly (readonly [SeedProof, readonly SeedRun[]])[]): string {
  const charts = groups.map(([{ environment, setting, quantities }, own]) => ({
    title: `${environment} (${setting}): mean reward, held-out rows (faint: training batches)`,
    runs: own.map((run) => ({ label: ownLabel(run), rows: run.rows, control: run.isControl })),
    goals: rewardGoals(quantities[0]),
  }));
  return compareGroups(charts, { heading: 'Nano models, GRPO with LoRA in Node alone' });
}

/** Figures of a run, for the page's JSON. */
export function seedRecord(run: SeedRun): RunRecord & { readonly environment: string } {
  const { environment, quantities } = run.proof;
  return {
    environment,
    ...runRecord(
      run,
      quantities.map(({ metric }) => metric),
    ),
  };
}

/** Describes the variants that ran. */
function variantLines({ environment, variants }: SeedProof, runs: readonly SeedRun[]): string[] {
  const ran = variants.filter(({ label }) => runs.some((run) => run.label === `${environment}, ${label}`));
  return ran.flatMap(({ label, about: text }) => [
    '',
    `${label.charAt(0).toUpperCase()}${label.slice(1)}: ${text.charAt(0).toLowerCase()}${text.slice(1)}`,
  ]);
}

/** A table in Markdown with a row for each run. */
export function seedTable({ quantities }: SeedProof, runs: readonly SeedRun[]): string[] {
  const cells = (run: SeedRun) => {
    const moved = quantities.map(({ metric }) =>
      beforeAndAfter(run, metric)
        .map((value) => value.toFixed(3))
        .join(' → '),
    );
    const cpu = run.cpuSeconds === null ? 'not measured' : run.cpuSeconds.toFixed(0);
    return [ownLabel(run), ...moved, stepsOf(run), run.seconds.toFixed(0), cpu, worst(run.rows, 'log_prob_difference_max')];
  };
  return tableLines(['run', ...quantities.map(({ label }) => label), 'steps', 'seconds', 'CPU seconds', '\\|Δ log-prob\\|'], runs.map(cells));
}
