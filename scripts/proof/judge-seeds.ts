/** The verdicts of `npm run prove:seeds`. */
import { type ProvenRun, type Verdict, worst } from './training-proof.ts';
import type { SeedProof } from './seed-proofs.ts';

export interface SeedRun extends ProvenRun {
  readonly proof: SeedProof;
  /** `laptop`: the preset as it is; `variant`: with other settings; `control`: with negated advantages. */
  readonly kind: 'laptop' | 'variant' | 'control';
  /** A variant's bar of the held-out reward. */
  readonly end: number | null;
}

export interface SeedJudgement {
  /** Few steps on a machine that may be busy. */
  readonly quick: boolean;
  /** The time counts. */
  readonly isStrict: boolean;
}

/** A quantity before the first step and after the last; NaN if it was not measured. */
export function beforeAndAfter({ rows }: Pick<ProvenRun, 'rows'>, metric: string): readonly [before: number, after: number] {
  const values = rows.filter(({ kind }) => kind === 'evaluation').map(({ values: of }) => of[metric] ?? NaN);
  return [values[0] ?? NaN, values.at(-1) ?? NaN];
}

export function stepsOf({ rows }: Pick<ProvenRun, 'rows'>): number {
  return Math.max(0, ...rows.map(({ step }) => step));
}

export function judgeSeedRun(run: SeedRun, { quick, isStrict }: SeedJudgement): Verdict[] {
  const { label, kind, proof, seconds } = run;
  const difference = worst(run.rows, 'log_prob_difference_max');
  const equal = { ok: difference === 0, text: `${label}: largest |Δ log-prob| of a token, trainer to sampler, ${difference}; must be 0` };
  const [reward] = proof.quantities;
  const moved = (quantity: SeedProof['quantities'][number]) => {
    const [before, after] = beforeAndAfter(run, quantity.metric);
    return { before, after, text: `${label}: ${quantity.label} ${before.toFixed(3)} → ${after.toFixed(3)}` };
  };
  if (kind === 'control') {
    const { before, after, text } = moved(reward);
    // A few steps already turn the reward around, but do not bring it to the bar.
    const below = quick ? before : proof.controlBelow;
    return [{ ok: after < below, text: `${text}; must end below ${Number(below.toFixed(3))}` }, equal];
  }
  if (kind === 'variant') {
    const { after, text } = moved(reward);
    const end = run.end ?? reward.end;
    return [{ ok: after >= end, text: `${text}; to at least ${end}` }, equal];
  }
  const quantities = proof.quantities.map((quantity) => {
    const { before, after, text } = moved(quantity);
    const end = quick ? quantity.quickEnd : quantity.end;
    return { ok: before <= quantity.start && after >= end, text: `${text}; from at most ${quantity.start} to at least ${end}` };
  });
  const steps = stepsOf(run);
  const length = { ok: steps <= proof.steps, text: `${label}: ${steps} steps; at most ${proof.steps}` };
  const time = { ok: seconds <= proof.seconds, text: `${label}: ${seconds.toFixed(1)} s from command to result; at most ${proof.seconds} s` };
  return [...quantities, length, ...(isStrict ? [time] : []), equal];
}
