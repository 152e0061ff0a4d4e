/** A page of a proof with parts: its JSON keeps the results of every part, so that one part can be proved again without the others; the page is made from all of them. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readRegularFileSync } from '../../src/files/regular-file.ts';
import { compareGroups, type ComparedRun } from '../../src/reports/plot/training-plots.ts';
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import type { ProofOptions } from './proof-options.ts';
import { provenance, type Provenance, type ResultsPage, type Verdict, writePage } from './results-page.ts';
import { runRecord, type RunRecord } from './run-figures.ts';
import type { ProvenRun } from './train-once.ts';

/** The contribution of a part to the page of its proof. */
export interface ProofPart {
  readonly title: string;
  /** Markdown below the title. */
  readonly lines: readonly string[];
  /** The panel of the plot; null for a part without one. */
  readonly chart: { readonly title: string; readonly goals: readonly { readonly value: number; readonly label: string }[] } | null;
  /** Those of the panel; a label loses the part's name, and what `PartsPage.unlabelled` says. */
  readonly runs: readonly ProvenRun[];
  /** Figures of the runs, for the JSON. */
  readonly records: readonly object[];
  readonly verdicts: readonly Verdict[];
}

export interface PartsPage extends Pick<ResultsPage, 'name' | 'title' | 'intro'> {
  /** Of the plot. */
  readonly heading: string;
  /** The parts by name, in the order of the page. */
  readonly parts: readonly string[];
  /** The beginning of labels that the plot leaves out. @default the part's name, a comma and a blank */
  readonly unlabelled?: string;
}

type Curve = Pick<RunRecord, 'held_out' | 'batch_reward'> & { readonly label: string; readonly control: boolean };

interface KeptPart extends Omit<ProofPart, 'runs'>, Provenance {
  /** The curves of the plot. */
  readonly curves: readonly Curve[];
}

/** Writes the page with the results of a part, and with those that NAME.json in `options.output` keeps of the others. Returns the part's verdicts, with its name. */
export function writePart(options: Pick<ProofOptions, 'command' | 'output'>, page: PartsPage, name: string, part: ProofPart): readonly Verdict[] {
  const { heading, parts: order, unlabelled = `${name}, `, ...head } = page;
  const { runs, ...rest } = part;
  const curves = runs.map((run): Curve => {
    const { label, held_out, batch_reward } = runRecord(run);
    return { label: label.replace(unlabelled, ''), control: run.isControl, held_out, batch_reward };
  });
  const all = { ...keptParts(options.output, page), [name]: { ...provenance(options), ...rest, curves } };
  const parts = Object.fromEntries(order.flatMap((each) => (all[each] === undefined ? [] : [[each, all[each]]])));
  const groups = Object.values(parts).flatMap((kept) => (kept.chart === null ? [] : [{ ...kept.chart, runs: kept.curves.map(comparedRun) }]));
  writePage(options, {
    ...head,
    plot: groups.length === 0 ? null : { svg: compareGroups(groups, { heading }), alt: 'Held-out reward by step' },
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
  return named(name, part.verdicts);
}

function keptParts(output: string, { name }: PartsPage): Readonly<Record<string, KeptPart>> {
  const file = join(output, `${name}.json`);
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
