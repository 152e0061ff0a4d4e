/**
 * Writes the page of `npm run prove:visual`: visual.md, visual.json, visual.svg, visual.png and the metrics of every run. Every part keeps its results in a file of its own,
 * `visual/NAME.json`, so that one part can be proved again without the others; the page is made from all of them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { readMetrics } from '../../src/trainer/records/metrics-journal.ts';
import { keepMetrics, metricsFolder, provenance, type Verdict, verdictLines, writePlot } from './training-proof.ts';
import { VISUAL_PROOFS, type VisualPart } from './visual-proofs.ts';

const NAME = 'visual';

interface KeptPart extends Omit<VisualPart, 'runs'> {
  readonly command: string;
  readonly machine: string;
  readonly node: string;
  readonly runs: readonly { readonly label: string; readonly isControl: boolean }[];
}

/** Keeps the results of a part. @param output folder of the page */
export function keepPart(output: string, name: string, part: VisualPart): void {
  const folder = join(output, NAME, name);
  mkdirSync(folder, { recursive: true });
  for (const run of part.runs) keepMetrics(run, folder);
  const runs = part.runs.map(({ label, isControl }) => ({ label, isControl }));
  const kept: KeptPart = { ...part, ...provenance('prove:visual'), node: process.versions.node, runs };
  writeFileSync(`${folder}.json`, `${JSON.stringify(kept, null, 2)}\n`);
}

/** Writes the page from all parts that are kept. */
export async function writeVisualPage(output: string): Promise<void> {
  const parts = VISUAL_PROOFS.flatMap(({ name }) => {
    const file = join(output, NAME, `${name}.json`);
    return existsSync(file) ? [{ name, part: JSON.parse(readFileSync(file, 'utf8')) as KeptPart }] : [];
  });
  const groups = await Promise.all(
    parts.map(async ({ name, part }) => {
      const runs = part.runs.map(async ({ label, isControl: control }) => {
        const rows = await readMetrics(join(metricsFolder({ label }, join(output, NAME, name)), 'metrics.jsonl'));
        return { label: label.replace('visual-rag, ', ''), rows, control };
      });
      return { ...part.chart, runs: await Promise.all(runs) };
    }),
  );
  await writePlot(output, NAME, compareGroups(groups, { heading: 'visual-rag: searchers of document pages' }));
  const records = Object.fromEntries(
    parts.map(({ name, part: { command, machine, node, records: runs, verdicts } }) => [name, { command, machine, node, runs, verdicts }]),
  );
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify(records, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(parts.map(({ part }) => part)));
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
