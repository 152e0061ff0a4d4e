/** The verdicts of `npm run prove seeds`. */
import type { ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import { beforeAndAfter, judgeEqual, stepsOf } from './run-figures.ts';
import type { SeedProof } from './seed-proofs.ts';
import type { ProvenRun } from './train-once.ts';

export interface SeedRun extends ProvenRun {
  readonly proof: SeedProof;
  /** `laptop`: the preset as it is; `variant`: with other settings; `control`: with negated advantages. */
  readonly kind: 'laptop' | 'variant' | 'control';
  /** A variant's bar of the held-out reward. */
  readonly end: number | null;
}

/** `quick`: few steps on a machine that may be busy; `isStrict`: the time counts. */
export function judgeSeedRun(run: SeedRun, { quick, isStrict }: Pick<ProofOptions, 'quick' | 'isStrict'>): Verdict[] {
  const { label, kind, proof, seconds } = run;
  const equal = judgeEqual(run);
  const [reward] = proof.quantities;
  const moved = (quantity: SeedProof['quantities'][number]) => {
    const [before, after] = beforeAndAfter(run, quantity.metric);
    return { before, after, text: `${label}: ${quantity.label} ${before.toFixed(3)} → ${after.toFixed(3)}` };
  };
  if (kind === 'control') {
    const { after, text } = moved(reward);
    return [{ ok: after < proof.controlBelow, text: `${text}; must end below ${proof.controlBelow}` }, equal];
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
