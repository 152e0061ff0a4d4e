/**
 * On-policy distillation as an advantage: how much likelier the teacher finds each token that the student sampled ("On-Policy Distillation", Thinking Machines, 2025; GKD,
 * arXiv 2306.13649). Pure, in float64.
 *
 * With r = π_teacher / π_student of a sampled token, the gradient of a divergence E[f(r)] over the student's own tokens is that of the advantage r f'(r) − f(r), up to a
 * constant. For the reverse KL it is log r; for GKD's Jensen-Shannon divergence (1 − β) log(β r + 1 − β). So the log-probs of the sampled tokens suffice for both.
 */
export interface DistillationConfig {
  /** Factor of every advantage. */
  readonly coefficient: number;
  /** 1: reverse KL. In (0, 1): the generalised Jensen-Shannon divergence. */
  readonly beta: number;
  /** Weight of a later token's advantage, by its distance; 0: none. In [0, 1). */
  readonly discount: number;
  /** log r is clamped to ± this, in nats; null: unbounded. */
  readonly clamp: number | null;
}

/** The advantage of each token; NaN where a log-prob is not finite, and such a token adds nothing to those before it. [M] */
export function distillationAdvantages(
  { coefficient, beta, discount, clamp }: DistillationConfig,
  { student, teacher }: { readonly student: Float64Array; readonly teacher: Float64Array },
): Float64Array {
  const bound = clamp ?? Infinity;
  const own = student.map((logProb, t) => {
    const logRatio = Math.min(Math.max(teacher[t]! - logProb, -bound), bound);
    if (!Number.isFinite(logProb) || !Number.isFinite(teacher[t]!)) return NaN;
    return coefficient * (beta === 1 ? logRatio : (1 - beta) * logMixture(beta, logRatio));
  });
  let later = 0;
  for (let t = own.length - 1; t >= 0; t--) {
    const value = own[t]! + discount * later;
    later = Number.isNaN(own[t]!) ? discount * later : value;
    own[t] = value;
  }
  return own;
}

/** log(β e^d + 1 − β), without an overflow of e^d. */
function logMixture(beta: number, d: number): number {
  return d > 0 ? d + Math.log(beta + (1 - beta) * Math.exp(-d)) : Math.log1p(beta * Math.expm1(d));
}
