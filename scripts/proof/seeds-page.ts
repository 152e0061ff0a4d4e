/** Writes the page of `npm run prove:seeds`: seeds.md, seeds.json and seeds.svg. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { beforeAndAfter, type SeedRun, stepsOf } from './judge-seeds.ts';
import type { SeedProof } from './seed-proofs.ts';
import { announceVerdicts, provenance, type Verdict, verdictLines, worst } from './training-proof.ts';

export interface SeedsPage {
  /** Folder of the page. */
  readonly output: string;
  readonly runs: readonly SeedRun[];
  readonly verdicts: readonly Verdict[];
}

const NAME = 'seeds';

/** Writes the page, prints the verdicts and sets the exit code. */
export function reportSeeds({ output, runs, verdicts }: SeedsPage): void {
  mkdirSync(output, { recursive: true });
  const about = provenance('prove:seeds');
  writeFileSync(join(output, `${NAME}.svg`), plot(runs));
  const record = { ...about, node: process.versions.node, runs: runs.map(seedRecord), verdicts };
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(runs, verdicts, about));
  announceVerdicts(verdicts);
}

/** The runs of each environment. */
function byProof(runs: readonly SeedRun[]): [SeedProof, SeedRun[]][] {
  return [...Map.groupBy(runs, ({ proof }) => proof)];
}

function ownLabel({ label, proof }: SeedRun): string {
  return label.replace(`${proof.environment}, `, '');
}

function plot(runs: readonly SeedRun[]): string {
  const groups = byProof(runs).map(([{ environment, setting, quantities }, own]) => ({
    title: `${environment} (${setting}): mean reward, held-out rows (faint: training batches)`,
    runs: own.map((run) => ({ label: ownLabel(run), rows: run.rows, control: run.isControl })),
    goals: [
      { value: quantities[0].end, label: 'goal' },
      { value: quantities[0].start, label: 'start at most' },
    ],
  }));
  return compareGroups(groups, { heading: 'Nano models, GRPO with LoRA in Node alone' });
}

/** Figures of a run, for the page's JSON. */
export function seedRecord(run: SeedRun): object {
  const { label, proof, seconds, cpuSeconds, peakMemoryBytes, rows } = run;
  const evaluated = rows.filter(({ kind }) => kind === 'evaluation');
  return {
    label,
    environment: proof.environment,
    seconds: Number(seconds.toFixed(1)),
    cpu_seconds: cpuSeconds,
    peak_memory_bytes: peakMemoryBytes,
    steps: stepsOf(run),
    held_out: evaluated.map(({ step, values }) => ({
      step,
      ...Object.fromEntries(proof.quantities.map(({ metric }) => [metric.replace('rubric/', ''), values[metric]])),
    })),
    log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
  };
}

function markdown(runs: readonly SeedRun[], verdicts: readonly Verdict[], { command, machine }: ReturnType<typeof provenance>): string {
  return [
    '# The other environments learn, on a laptop',
    '',
    `Written by \`${command}\` on ${machine}: \`npx vf-train <environment> --preset laptop\` with Node alone, no Python, no GPU, no server. Held-out rows, sampled at temperature 1, before the first step`,
    'and after the last. Seconds are those of the whole command without the startup of npx, on a machine that may be busy with other work; CPU seconds are those of all its threads. |Δ log-prob| is',
    'the largest difference of a token between trainer and sampler.',
    '',
    `![Held-out reward by step](${NAME}.svg)`,
    ...byProof(runs).flatMap(([proof, own]) => [
      '',
      `## ${proof.environment}`,
      '',
      `${proof.setting}.`,
      '',
      ...seedTable(proof, own),
      ...variantLines(proof, own),
    ]),
    '',
    '## Verdicts',
    '',
    ...verdictLines(verdicts),
    '',
  ].join('\n');
}

/** What the variants that ran are. */
function variantLines({ environment, variants }: SeedProof, runs: readonly SeedRun[]): string[] {
  const ran = variants.filter(({ label }) => runs.some((run) => run.label === `${environment}, ${label}`));
  return ran.flatMap(({ label, about: text }) => [
    '',
    `${label.charAt(0).toUpperCase()}${label.slice(1)}: ${text.charAt(0).toLowerCase()}${text.slice(1)}`,
  ]);
}

/** A table in Markdown with a row for each run. */
export function seedTable({ quantities }: SeedProof, runs: readonly SeedRun[]): string[] {
  const heads = ['run', ...quantities.map(({ label }) => label), 'steps', 'seconds', 'CPU seconds', '\\|Δ log-prob\\|'];
  return [
    `| ${heads.join(' | ')} |`,
    `|${heads.map(() => '---|').join('')}`,
    ...runs.map((run) => {
      const moved = quantities.map(({ metric }) =>
        beforeAndAfter(run, metric)
          .map((value) => value.toFixed(3))
          .join(' → '),
      );
      const cpu = run.cpuSeconds === null ? 'not measured' : run.cpuSeconds.toFixed(0);
      return `| ${[ownLabel(run), ...moved, stepsOf(run), run.seconds.toFixed(0), cpu, worst(run.rows, 'log_prob_difference_max')].join(' | ')} |`;
    }),
  ];
}
