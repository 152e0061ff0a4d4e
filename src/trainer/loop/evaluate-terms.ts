/** Evaluates the losses of a step on a micro-batch: each on the sequences that it takes, with its own divisor, and their gradients summed. */
import { TrainingError } from '../../core/errors.ts';
import type { TrainingSequence } from '../credit.ts';
import { countLengths } from '../losses/token-counts.ts';
import { tokenPlaces } from '../credit/rollout-turns.ts';
import type { LossMetrics, LossNeeds, LossTerm, TokenCounts, TokenLossBatch } from '../token-loss.ts';

export interface TermValues {
  /** Sum over the terms, weights included. */
  readonly loss: number;
  /** By term, of those that took a sequence. */
  readonly byTerm: ReadonlyMap<string, LossMetrics>;
}

export interface Evaluated {
  readonly values: TermValues;
  /** [N] */
  readonly gradient: Float64Array;
  /** [N]; null if no term has one. */
  readonly dEntropy: Float64Array | null;
}

/** The results of a forward pass over the members. */
interface Forwarded {
  /** Targets of each member. [B + 1] */
  readonly offsets: Int32Array;
  /** [N] */
  readonly logProbs: Float64Array;
  /** [N]; null if not asked for. */
  readonly entropy: Float64Array | null;
}

/** Tells whether a loss is taken on this sequence. */
export function takes({ on, roles }: LossTerm, { isDemonstration, trajectory }: TrainingSequence): boolean {
  return (on === 'demonstrations') === isDemonstration && (roles === null || roles.includes(trajectory.role));
}

/** Sizes of the whole step for a term. */
export interface TermCounts {
  /** Its divisor. */
  readonly counts: TokenCounts;
  /** Trained tokens by what counts as one sequence; null if every sequence counts by itself. */
  readonly lengths: ReadonlyMap<object, number> | null;
}

export function termCounts(term: LossTerm, sequences: readonly TrainingSequence[]): TermCounts {
  const own = sequences.filter((sequence) => takes(term, sequence));
  const each = own.map(({ targets }) => targets.length);
  const roles = own.map(({ trajectory }) => trajectory.role);
  if (own.every(({ unit }) => unit === undefined)) return { counts: countLengths(each, roles), lengths: null };
  const lengths = new Map<object, number>();
  for (const [i, sequence] of own.entries()) {
    const unit = sequence.unit ?? sequence;
    lengths.set(unit, (lengths.get(unit) ?? 0) + each[i]!);
  }
  const { tokensByRole } = countLengths(each, roles);
  return { counts: { ...countLengths([...lengths.values()]), ...(tokensByRole && { tokensByRole }) }, lengths };
}

/** @param counts of each term, over the whole optimiser step */
export function evaluateTerms(
  terms: readonly LossTerm[],
  counts: readonly TermCounts[],
  members: readonly TrainingSequence[],
  forwarded: Forwarded,
): Evaluated {
  const { offsets, logProbs } = forwarded;
  const gradient = new Float64Array(logProbs.length);
  const dEntropy = forwarded.entropy === null ? null : new Float64Array(logProbs.length);
  const byTerm = new Map<string, LossMetrics>();
  let loss = 0;
  for (const [place, term] of terms.entries()) {
    const own = [...members.keys()].filter((i) => takes(term, members[i]!));
    if (own.length === 0 || term.weight === 0) continue;
    const { counts: divisor, lengths } = counts[place]!;
    const value = term.loss.evaluate({ ...batchOf(term, own, members, forwarded), ...lengthColumn(lengths, own, members) }, divisor);
    loss += term.weight * value.loss;
    addAt(own, offsets, term.weight, value.gradient, gradient);
    if (value.dEntropy !== undefined && dEntropy !== null) addAt(own, offsets, term.weight, value.dEntropy, dEntropy);
    const share = term.isMain ? {} : { loss: { merge: 'sum', value: term.weight * value.loss } as const };
    byTerm.set(term.name, { ...share, ...value.metrics });
  }
  return { values: { loss, byTerm }, gradient, dEntropy };
}

/** Adds the values of the sequences `own`, concatenated, at their places in the whole micro-batch. */
function addAt(own: readonly number[], offsets: Int32Array, weight: number, values: Float64Array, target: Float64Array): void {
  let from = 0;
  for (const i of own) for (let t = offsets[i]!; t < offsets[i + 1]!; t++) target[t]! += weight * values[from++]!;
}

function batchOf(
  { loss: { needs }, name }: LossTerm,
  own: readonly number[],
  members: readonly TrainingSequence[],
  forwarded: Forwarded,
): TokenLossBatch {
  const { offsets, logProbs, entropy } = forwarded;
  const current = (i: number) => logProbs.subarray(offsets[i], offsets[i + 1]);
  const column = (values: (member: TrainingSequence, i: number) => Float64Array) => concatenated(own.map((i) => values(members[i]!, i)));
  const sampler = ({ logProbs: sampled, trajectory }: TrainingSequence) => {
    if (sampled !== null) return sampled;
    throw new TrainingError(`The loss "${name}" needs the sampler's log-probs, but ${trajectory.rolloutId} has none`);
  };
  const starts = new Int32Array(own.length + 1);
  for (const [k, i] of own.entries()) starts[k + 1] = starts[k]! + offsets[i + 1]! - offsets[i]!;
  return {
    offsets: starts,
    logProbs: own.length === members.length ? logProbs : column((_, i) => current(i)),
    advantages: column(({ advantages }) => advantages),
    rolloutIds: own.map((i) => members[i]!.trajectory.rolloutId),
    roles: own.map((i) => members[i]!.trajectory.role),
    ...(needs.old ? { oldLogProbs: column(({ oldLogProbs }, i) => oldLogProbs ?? current(i)) } : {}),
    ...(needs.reference ? { referenceLogProbs: column(({ referenceLogProbs }) => referenceLogProbs!) } : {}),
    ...(needs.sampler ? { samplerLogProbs: column(sampler) } : {}),
    ...placeColumns(needs, own, members),
    ...(needs.entropy === true && entropy !== null ? { entropy: column((_, i) => entropy.subarray(offsets[i], offsets[i + 1])) } : {}),
  };
}

/** Only where branches of a rollout count as one sequence. */
function lengthColumn(lengths: TermCounts['lengths'], own: readonly number[], members: readonly TrainingSequence[]): Pick<TokenLossBatch, 'lengths'> {
  if (lengths === null) return {};
  return { lengths: Int32Array.from(own, (i) => lengths.get(members[i]!.unit ?? members[i]!)!) };
}

/** The columns that say where a token stands; only those that the loss needs. */
function placeColumns(needs: LossNeeds, own: readonly number[], members: readonly TrainingSequence[]) {
  const places = needs.turns === true || needs.positions === true ? own.flatMap((i) => tokenPlaces(members[i]!)) : [];
  return {
    ...(needs.turns === true ? { turns: Int32Array.from(places, ({ turn }) => turn) } : {}),
    ...(needs.positions === true
      ? { positions: Int32Array.from(places, ({ position }) => position), turnPositions: Int32Array.from(places, ({ inTurn }) => inTurn) }
      : {}),
    ...(needs.kinds === true ? { kinds: own.flatMap((i) => members[i]!.kinds!) } : {}),
  };
}

function concatenated(parts: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((length, { length: own }) => length + own, 0));
  let at = 0;
  for (const values of parts) {
    all.set(values, at);
    at += values.length;
  }
  return all;
}
