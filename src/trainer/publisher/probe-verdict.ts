/**
 * Whether a server applies an adapter: are its log-probs under the adapter's name nearer to the trainer's than to its own base's? A test of one number
 * over all compared tokens, because a single token says nothing where rounding moves every log-prob.
 *
 * `effect` e: how far the trainer's adapter moves a token; `move` d: how far the server's does. The projection share = Σ e·d / Σ e² is about 1 if the
 * adapter is applied and about 0 if not; nearer to the trainer means above 1/2. The noise is measured on the same tokens, as the root mean square
 * difference of the two bases, which both compute without an adapter. The test refuses only if
 * - the effect is clear: its root mean square is at least 3 times the noise. Below, the trainer's own rounding may pass for an effect, and the first step
 *   or a tiny learning rate would make a right publish fail;
 * - the server is nearer to its base by 3 standard errors.
 * Error rates, simulated: test/trainer/publisher/probe-verdict.test.ts.
 */

export interface ProbedTokens {
  /** Log-probs under the adapter's name. [K] */
  readonly served: readonly number[];
  /** The server's, of its base. [K] */
  readonly servedBase: readonly number[];
  /** The trainer's, with the adapter. [K] */
  readonly trained: readonly number[];
  /** The trainer's, without it. [K] */
  readonly trainedBase: readonly number[];
  /** Noise is never taken to be less than a 150th of it, in nats. */
  readonly tolerance: number;
}

export interface ProbeVerdict {
  /** `unclear`: the adapter changes these tokens too little to tell. */
  readonly kind: 'applied' | 'not_applied' | 'unclear';
  /** Share of the adapter's effect that the server shows: 1 if applied, 0 if not. */
  readonly share: number;
  /** Root mean square of the adapter's effect at the trainer, in nats. */
  readonly effect: number;
  /** Root mean square difference of the two bases, in nats. */
  readonly noise: number;
}

/** How many times the noise an effect must be to be told from it. */
const CLEAR = 3;
/** Standard errors by which a server must be nearer to its base. */
const CERTAIN = 3;

export function judgeApplication({ served, servedBase, trained, trainedBase, tolerance }: ProbedTokens): ProbeVerdict {
  const effects = trained.map((value, i) => value - trainedBase[i]!);
  const moves = served.map((value, i) => value - servedBase[i]!);
  const effect = rootMeanSquare(effects);
  const noise = Math.max(rootMeanSquare(servedBase.map((value, i) => value - trainedBase[i]!)), tolerance / 150);
  const share = effect === 0 ? 0 : effects.reduce((sum, e, i) => sum + e * moves[i]!, 0) / (effects.length * effect ** 2);
  if (share > 0.5) return { kind: 'applied', share, effect, noise };
  const standardErrors = ((0.5 - share) * effect * Math.sqrt(effects.length)) / noise;
  const isClear = effect >= CLEAR * noise && standardErrors >= CERTAIN;
  return { kind: isClear ? 'not_applied' : 'unclear', share, effect, noise };
}

function rootMeanSquare(values: readonly number[]): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0) / values.length);
}
