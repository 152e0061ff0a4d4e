/** The part `laptop` of the proof of visual-rag: Node alone. */
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import { judgeSeedRun, type SeedRun } from './judge-seeds.ts';
import { rewardGoals } from './learning-page.ts';
import { playSeeds } from './play-seeds.ts';
import type { ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import type { SeedProof } from './seed-proofs.ts';
import { seedRecord, seedTable } from './seeds.ts';
import type { ProofPart } from './parts-page.ts';

/** A nano text model that reads pages as words with boxes. */
const VISUAL_LAPTOP: SeedProof = {
  environment: 'visual-rag',
  setting: 'nano-pages, bundled page world as words with boxes, built-in reader, exact match',
  steps: 20,
  quickSteps: 6,
  seconds: 60,
  quantities: [{ metric: 'reward_mean', label: 'held-out reward', start: 0.35, end: 0.85, quickEnd: 0.45 }],
  variants: [],
  worlds: [7],
  world: {
    module: 'recipes.pages.pages',
    settings: (folder) => [
      `environment.args.dataset=${folder}/train.jsonl`,
      `environment.args.pages=${folder}/pages.jsonl`,
      `environment.eval_args.dataset=${folder}/test.jsonl`,
    ],
  },
  controlBelow: 0.35,
};

export async function proveLaptopPart(options: ProofOptions): Promise<ProofPart> {
  const proof = VISUAL_LAPTOP;
  const runs = await playSeeds(proof, options);
  const [reward] = proof.quantities;
  return {
    title: 'Laptop: Node alone',
    lines: [
      `\`npx vf-train visual-rag --preset laptop\`: ${proof.setting}; GSPO. Held-out questions are about other towns than those of training, and world 7 has other pages of the same towns, so`,
      'that the policy must read what it sees. It searches a page, cuts out what stands below a label, and completes.',
      '',
      ...seedTable(proof, runs),
      '',
      `Sequences outside the clip, mean over the steps of seed ${options.seeds[0]}: ${clippedShare(runs[0]!).toFixed(2)}.`,
    ],
    chart: {
      title: `laptop (${proof.setting}): mean reward, held-out rows (faint: training batches)`,
      goals: rewardGoals(reward),
    },
    runs,
    records: runs.map(seedRecord),
    verdicts: runs.flatMap((run) => [...judgeSeedRun(run, options), ...(run.kind === 'laptop' ? [judgeClip(run)] : [])]),
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
