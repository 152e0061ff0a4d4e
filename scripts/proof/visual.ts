/**
 * Searchers of document pages learn in visual-rag, part by part. visual.json keeps the results of every part, so that one part can be proved again without the others; the
 * page is made from all of them.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { compareGroups, type ComparedRun } from '../../src/reports/plot/training-plots.ts';
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { provenance, type Provenance, type Verdict, writePage } from './results-page.ts';
import { runRecord, type RunRecord } from './run-figures.ts';
import { proveLaptopPart } from './visual-laptop.ts';
import { proveLoop } from './visual-loop.ts';
import type { VisualPart } from './visual-part.ts';
import { proveSees } from './visual-sees.ts';
import { readRegularFileSync } from '../../src/files/regular-file.ts';

const NAME = 'visual';
const PARTS: Readonly<Record<string, (options: ProofOptions) => Promise<VisualPart>>> = { laptop: proveLaptopPart, sees: proveSees, loop: proveLoop };

export const VISUAL: Proof = {
  about: 'searchers of document pages learn: with Node alone, through a real vLLM that sees, and in rounds',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time'],
  parts: Object.keys(PARTS),
  keepsParts: true,
  prove: proveVisual,
};

async function proveVisual(options: ProofOptions): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const [name, prove] of Object.entries(PARTS)) {
    if (options.only?.includes(name) === false) continue;
    const part = await prove(options);
    writeVisualPage(options, name, part);
    verdicts.push(...named(name, part.verdicts));
  }
  return verdicts;
}

type Curve = Pick<RunRecord, 'held_out' | 'batch_reward'> & { readonly label: string; readonly control: boolean };

interface KeptPart extends Omit<VisualPart, 'runs'>, Provenance {
  /** The curves of the plot. */
  readonly curves: readonly Curve[];
}

/** Writes the page with the results of a part, and with those that visual.json in `options.output` keeps of the others. */
export function writeVisualPage(options: Pick<ProofOptions, 'command' | 'output'>, name: string, part: VisualPart): void {
  const { runs, ...rest } = part;
  const curves = runs.map((run): Curve => {
    const { label, held_out, batch_reward } = runRecord(run);
    return { label: label.replace('visual-rag, ', ''), control: run.isControl, held_out, batch_reward };
  });
  const all = { ...keptParts(options.output), [name]: { ...provenance(options), ...rest, curves } };
  const parts = Object.fromEntries(Object.keys(PARTS).flatMap((each) => (all[each] === undefined ? [] : [[each, all[each]]])));
  const groups = Object.values(parts).map((kept) => ({ ...kept.chart, runs: kept.curves.map(comparedRun) }));
  writePage(options, {
    name: NAME,
    title: 'Searchers of document pages learn',
    intro: [
      'Held-out rows, sampled at temperature 1, before the first step and after the last. Seconds are those of the whole command without the startup of npx, on a machine that may be busy with other',
      'work; CPU seconds are those of all its threads. |Δ log-prob| is the largest difference of a token between trainer and sampler.',
    ],
    plot: { svg: compareGroups(groups, { heading: 'visual-rag: searchers of document pages' }), alt: 'Held-out reward by step' },
    body: Object.values(parts).flatMap(({ title, command, machine, lines }, i) => [
      ...(i === 0 ? [] : ['']),
      `## ${title}`,
      '',
      `Proved by \`${command}\` on ${machine}.`,
      '',
      ...lines,
    ]),
    figures: { parts },
    verdicts: Object.entries(parts).flatMap(([each, { verdicts }]) => named(each, verdicts)),
  });
}

function keptParts(output: string): Readonly<Record<string, KeptPart>> {
  const file = join(output, `${NAME}.json`);
  return existsSync(file) ? (JSON.parse(readRegularFileSync(file)) as { readonly parts: Readonly<Record<string, KeptPart>> }).parts : {};
}

/** The rows that the plot reads. */
function comparedRun({ label, control, held_out: heldOut, batch_reward: batches }: Curve): ComparedRun {
  const row = (kind: MetricsRow['kind'], { step, reward_mean: reward }: Readonly<Record<string, number | null>>): MetricsRow => ({
    kind,
    step: step!,
    values: { reward_mean: reward ?? null },
  });
  return { label, control, rows: [...heldOut.map((each) => row('evaluation', each)), ...batches.map((each) => row('step', { ...each }))] };
}

function named(name: string, verdicts: readonly Verdict[]): Verdict[] {
  return verdicts.map(({ ok, text }) => ({ ok, text: `${name}: ${text}` }));
}
