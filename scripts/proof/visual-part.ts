import type { Verdict } from './results-page.ts';
import type { ProvenRun } from './train-once.ts';

/** The contribution of a part of `npm run prove visual` to its page. */
export interface VisualPart {
  readonly title: string;
  /** Markdown below the title. */
  readonly lines: readonly string[];
  /** The panel of the plot. */
  readonly chart: { readonly title: string; readonly goals: readonly { readonly value: number; readonly label: string }[] };
  readonly runs: readonly ProvenRun[];
  /** Figures of the runs, for visual.json. */
  readonly records: readonly object[];
  readonly verdicts: readonly Verdict[];
}
