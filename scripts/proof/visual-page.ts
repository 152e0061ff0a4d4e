/**
 * Writes the page of `npm run prove:visual`: visual.md, visual.json and visual.svg. Every part keeps its results in a file of its own,
 * `visual/NAME.json`, so that one part can be proved again without the others; the page is made from all of them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import type { MetricsRow } from '../../src/trainer/records/metrics.ts';
import { provenance, type Verdict, verdictLines } from './training-proof.ts';
import { VISUAL_PROOFS, type VisualPart } from './visual-proofs.ts';

const NAME = 'visual';

interface KeptPart extends Omit<VisualPart, 'runs'> {
  readonly command: string;
  readonly machine: string;
  readonly node: string;
  readonly runs: readonly { readonly label: string; readonly isControl: boolean; readonly rewards: readonly Reward[] }[];
}

/** The mean reward of a step or of an evaluation. */
interface Reward {
  readonly kind: 'step' | 'evaluation';
  readonly step: number;
  readonly reward: number | null;
}

/** Keeps the results of a part. @param output folder of the page */
export function keepPart(output: string, name: string, part: VisualPart): void {
  mkdirSync(join(output, NAME), { recursive: true });
  const runs = part.runs.map(({ label, isControl, rows }) => ({ label, isControl, rewards: rewardsOf(rows) }));
  const kept: KeptPart = { ...part, ...provenance('prove:visual'), node: process.versions.node, runs };
  writeFileSync(join(output, NAME, `${name}.json`), `${JSON.stringify(kept, null, 2)}\n`);
}

/** Writes the page from all parts that are kept. */
export function writeVisualPage(output: string): void {
  const parts = VISUAL_PROOFS.flatMap(({ name }) => {
    const file = join(output, NAME, `${name}.json`);
    return existsSync(file) ? [{ name, part: JSON.parse(readFileSync(file, 'utf8')) as KeptPart }] : [];
  });
  const groups = parts.map(({ part }) => ({
    ...part.chart,
    runs: part.runs.map(({ label, isControl: control, rewards }) => ({
      label: label.replace('visual-rag, ', ''),
      rows: rewards.map(({ kind, step, reward }) => ({ kind, step, values: { reward_mean: reward } })),
      control,
    })),
  }));
  writeFileSync(join(output, `${NAME}.svg`), compareGroups(groups, { heading: 'visual-rag: searchers of document pages' }));
  const records = Object.fromEntries(
    parts.map(({ name, part: { command, machine, node, records: runs, verdicts } }) => [name, { command, machine, node, runs, verdicts }]),
  );
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify(records, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(parts.map(({ part }) => part)));
}

function rewardsOf(rows: readonly MetricsRow[]): Reward[] {
  return rows.flatMap(({ kind, step, values }) => (kind === 'validation' ? [] : [{ kind, step, reward: values['reward_mean'] ?? null }]));
}

function markdown(parts: readonly KeptPart[]): string {
  return [
    '# Searchers of document pages learn',
    '',
    'Held-out rows, sampled at temperature 1, before the first step and after the last. Seconds are those of the whole command without the startup of npx, on a machine that may be busy with',
    'other work; CPU seconds are those of all its threads. |Δ log-prob| is the largest difference of a token between trainer and sampler.',
    '',
    `![Held-out reward by step](${NAME}.svg)`,
    ...parts.flatMap(({ title, command, machine, lines, verdicts }) => [
      '',
      `## ${title}`,
      '',
      `Written by \`${command}\` on ${machine}.`,
      '',
      ...lines,
      '',
      ...verdictLines(verdicts),
    ]),
    '',
  ].join('\n');
}

/** The verdicts of parts, each behind the part's name. */
export function namedVerdicts(name: string, verdicts: readonly Verdict[]): Verdict[] {
  return verdicts.map(({ ok, text }) => ({ ok, text: `${name}: ${text}` }));
}
