/**
 * Asks a replica what it thinks of the probe's tokens under a model, and holds that against what the trainer thinks. The last line of defence
 * against weights that were loaded but not applied, or applied to something else.
 *
 * Each token is sampled with no other one allowed: with raw log-probs its log-prob is then the model's own, and the request is an ordinary one.
 * `prompt_logprobs` would give all of them at once, but vLLM's CPU build dies of it when anything runs beside it through an adapter; it is used
 * only where the server gives log-probs after the filters, so that a forced token has 0, and where it does not force tokens.
 */
import type { AskedModel, LoraReplica } from './lora-routes.ts';
import type { LogProbProbe } from './weight-publisher.ts';

export interface LogProbDifference {
  /** Mean |difference| over the tokens that were asked for, in nats. */
  readonly mean: number;
  readonly max: number;
}

export interface ServedLogProbs {
  /** Indices into the probe's targets. [K] */
  readonly chosen: readonly number[];
  /** [K] */
  readonly logProbs: readonly number[];
}

/** Enough to tell an adapter from its base, few enough to be one batch of short requests: a CPU server takes some 20 ms for each. */
const MAX_TOKENS = 8;
/** Share of the tolerance by which the adapter must move a token, as the trainer sees it, for a server whose numbers do not move at all to be wrong. */
const LEAST_EFFECT = 0.02;

/** What is wrong with a probe; null where nothing is. */
export function probeFault({ ids, targets, logProbs, baseLogProbs, tolerance }: LogProbProbe): string | null {
  if (targets.length === 0 || targets.length !== logProbs.length) {
    return `Expected a log-prob for each of at least one target, got ${logProbs.length} for ${targets.length}`;
  }
  const astray = targets.findIndex((target, i) => target < 1 || target >= ids.length || (i > 0 && target <= targets[i - 1]!));
  if (astray >= 0) return `Expected ascending targets from 1 to ${ids.length - 1}, got ${targets[astray]}`;
  if (baseLogProbs !== undefined && baseLogProbs.length !== targets.length) {
    return `Expected a log-prob of the base for each of ${targets.length} targets, got ${baseLogProbs.length}`;
  }
  const bad = logProbs.findIndex((logProb) => !(Number.isFinite(logProb) && logProb <= 1e-3));
  if (bad >= 0) return `Expected finite log-probs from the gradient backend, got ${logProbs[bad]} for target ${targets[bad]}`;
  return tolerance > 0 ? null : `Expected a tolerance above 0, got ${tolerance}`;
}

/** `forced`: each token sampled with no other one allowed. `prompt`: all of them as parts of one prompt. */
export type Judgement = 'forced' | 'prompt';

/** Asks for at most 8 of the targets, spread evenly. Rejects with what LoraReplica's judgements reject with. */
export async function servedLogProbs(
  replica: LoraReplica,
  { ids, targets }: LogProbProbe,
  { judgement, signal, ...asked }: AskedModel & { readonly judgement: Judgement; readonly signal: AbortSignal },
): Promise<ServedLogProbs> {
  const chosen = spread(targets.length, MAX_TOKENS);
  const places = chosen.map((k) => targets[k]!);
  const forced = judgement === 'forced' ? await forcedLogProbs(replica, asked, ids, places, signal) : null;
  return { chosen, logProbs: forced ?? (await replica.promptLogProbs(asked, ids.subarray(0, places.at(-1)! + 1), places, signal)) };
}

/** Null where the server does not know `allowed_token_ids`. */
async function forcedLogProbs(
  replica: LoraReplica,
  asked: AskedModel,
  ids: Int32Array,
  places: readonly number[],
  signal: AbortSignal,
): Promise<number[] | null> {
  const logProbs = Array.from<number | null>({ length: places.length }).fill(null);
  const ask = async (k: number) => {
    logProbs[k] = await replica.forcedLogProb(asked, ids.subarray(0, places[k]), ids[places[k]!]!, signal);
  };
  // The longest prompt first and alone: it fills the prefix cache for the others, and a server that computes NaN is asked once.
  await ask(places.length - 1);
  if (logProbs.at(-1) === null) return null;
  await Promise.all(places.slice(0, -1).map((_, k) => ask(k)));
  return logProbs.every((logProb) => logProb !== null) ? logProbs : null;
}

/**
 * Which tokens of a text make a probe: half of them where the adapter moves the log-prob most, for at a small learning rate it moves most tokens by less
 * than half precision can show, and half spread over the rest, for those alone would be the ones that rounding moves most too. Ascending indices.
 */
export function tellingTokens(logProbs: ArrayLike<number>, baseLogProbs: ArrayLike<number>): number[] {
  const effect = (i: number) => Math.abs(logProbs[i]! - baseLogProbs[i]!);
  const byEffect = Array.from({ length: logProbs.length }, (_, i) => i).toSorted((a, b) => effect(b) - effect(a) || a - b);
  const most = byEffect.slice(0, MAX_TOKENS / 2);
  const rest = byEffect.slice(MAX_TOKENS / 2).toSorted((a, b) => a - b);
  const others = spread(rest.length, MAX_TOKENS - most.length).map((i) => rest[i]!);
  return [...most, ...others].toSorted((a, b) => a - b);
}

/**
 * Whether the server's base must be asked as well: a probe that passed proves nothing where the adapter moves these tokens by less than the tolerance
 * on average, for the base would pass too. Not where it moves them so little that no difference is to be expected.
 */
export function isBaseNeeded({ logProbs, baseLogProbs, tolerance }: LogProbProbe, chosen: readonly number[]): boolean {
  if (baseLogProbs === undefined) return false;
  const pick = (values: Float32Array) => chosen.map((k) => values[k]!);
  const { mean, max } = difference(pick(logProbs), pick(baseLogProbs));
  return mean <= 2 * tolerance && max >= LEAST_EFFECT * tolerance;
}

export function difference(a: readonly number[], b: readonly number[]): LogProbDifference {
  const differences = a.map((value, i) => Math.abs(value - b[i]!));
  return { mean: differences.reduce((sum, value) => sum + value, 0) / differences.length, max: Math.max(...differences) };
}

/**
 * Why the probe failed, as far as the base's own log-probs tell: `served`, `trained` and `base` are log-probs of the same tokens, by the server under
 * the new name, by the trainer, and by the server without an adapter.
 */
export function probeHint(served: readonly number[], trained: readonly number[], base: readonly number[], tolerance: number): string {
  if (served.every((logProb) => logProb === 0)) {
    return 'the server gives 0 for every token that it is told to sample, so it takes log-probs after its filters (--logprobs-mode processed_logprobs), unlike when it was probed';
  }
  const servedOff = difference(served, base).mean;
  const trainedOff = difference(trained, base).mean;
  // Reading the same model twice differs by less than this share of what passes.
  const same = tolerance / 10;
  if (servedOff < same && trainedOff < tolerance)
    return 'the adapter hardly changes the base, so the two sides hold different bases, dtypes or temperatures';
  if (servedOff < same) return "the server gives the base's own log-probs under the new name: the adapter is not applied";
  if (trainedOff < same)
    return "the trainer's log-probs are the base's own: its adapter was off, or had not been trained yet, when the probe was made";
  return `the adapter is applied (it moves the server's log-probs by ${nats(servedOff)} and the trainer's by ${nats(trainedOff)} on average): check for another base model, another alpha / rank, or log-probs that the trainer took at a temperature other than 1`;
}

export function nats(value: number): string {
  return `${value.toPrecision(3)} nats`;
}

/** `count` indices at most, from 0 to length - 1, evenly. */
function spread(length: number, count: number): number[] {
  if (length <= count) return Array.from({ length }, (_, i) => i);
  return Array.from({ length: count }, (_, i) => Math.round((i * (length - 1)) / (count - 1)));
}
