/** What `npm run prove:visual` proves, part by part. A further part is a further entry. */
import type { MetricsRow } from '../../src/trainer/records/metrics.ts';
import { judgeSeedRun, type SeedRun } from './judge-seeds.ts';
import { playSeeds } from './play-seeds.ts';
import { proveSees } from './sees.ts';
import type { SeedProof } from './seed-proofs.ts';
import { seedRecord, seedTable } from './seeds-page.ts';
import type { ProvenRun, Verdict } from './training-proof.ts';
import { proveLoop } from './visual-loop.ts';

export interface VisualOptions {
  /** Few steps and loose bars, for CI. */
  readonly quick: boolean;
  readonly seeds: readonly number[];
  /** The time counts: on an idle machine with two cores. */
  readonly isStrict: boolean;
  /** Further `key=value`, for vf-train. */
  readonly settings: readonly string[];
  /** Folder of the runs. */
  readonly runs: string;
}

/** What a part gives to the page. */
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

export interface VisualProof {
  readonly name: string;
  /** Throws if a run fails. */
  readonly prove: (options: VisualOptions) => Promise<VisualPart>;
}

/** Node alone: a nano text model that reads pages as words with boxes. */
export const VISUAL_LAPTOP: SeedProof = {
  environment: 'visual-rag',
  setting: 'nano-pages, bundled page world as words with boxes, built-in reader, exact match',
  steps: 20,
  quickSteps: 6,
  seconds: 60,
  quantities: [{ metric: 'reward_mean', label: 'held-out reward', start: 0.35, end: 0.85, quickEnd: 0.45 }],
  variants: [],
  worlds: [7],
  world: {
    script: 'scripts/nano-pages/pages.py',
    settings: (folder) => [
      `environment.args.dataset=${folder}/train.jsonl`,
      `environment.args.pages=${folder}/pages.jsonl`,
      `environment.eval_args.dataset=${folder}/test.jsonl`,
    ],
  },
  controlBelow: 0.35,
};

export const VISUAL_PROOFS: readonly VisualProof[] = [
  { name: 'laptop', prove: (options) => proveLaptop(VISUAL_LAPTOP, options) },
  { name: 'sees', prove: proveSees },
  { name: 'loop', prove: proveLoop },
];

async function proveLaptop(proof: SeedProof, { quick, seeds, isStrict, settings, runs: output }: VisualOptions): Promise<VisualPart> {
  const runs = await playSeeds(proof, { quick, seeds, settings, output });
  const [reward] = proof.quantities;
  return {
    title: 'Laptop: Node alone',
    lines: [
      `\`npx vf-train visual-rag --preset laptop\`: ${proof.setting}; GSPO. Held-out questions are about other towns than those of training, and world 7 has other pages of the same towns, so`,
      'that the policy must read what it sees. It searches a page, cuts out what stands below a label, and completes.',
      '',
      ...seedTable(proof, runs),
      '',
      `Sequences outside the clip, mean over the steps of seed ${seeds[0]}: ${clippedShare(runs[0]!).toFixed(2)}.`,
    ],
    chart: {
      title: `laptop (${proof.setting}): mean reward, held-out rows (faint: training batches)`,
      goals: [
        { value: reward.end, label: 'goal' },
        { value: reward.start, label: 'start at most' },
      ],
    },
    runs,
    records: runs.map(seedRecord),
    verdicts: runs.flatMap((run) => [...judgeSeedRun(run, { quick, isStrict }), ...(run.kind === 'laptop' ? [judgeClip(run)] : [])]),
  };
}

/** GSPO's tight clip must act, and must not stop the learning. */
export function judgeClip(run: Pick<SeedRun, 'label' | 'rows'>): Verdict {
  const share = clippedShare(run);
  return { ok: share > 0 && share < 1, text: `${run.label}: ${share.toFixed(3)} of the sequences outside the clip; more than 0 and less than 1` };
}

/** Mean over the steps; NaN if no step has it. */
function clippedShare({ rows }: { readonly rows: readonly MetricsRow[] }): number {
  const shares = rows.flatMap(({ kind, values }) => (kind === 'step' ? (values['clip_fraction_sequences'] ?? []) : []));
  return shares.reduce((sum, value) => sum + value, 0) / shares.length;
}
