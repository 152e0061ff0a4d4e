/**
 * Compares a replica's log-probs of the probe's tokens with the trainer's. The last line of defence against weights that were loaded but not
 * applied, or applied to the wrong model.
 *
 * Each token is sampled with no other token allowed: with raw log-probs, the log-prob is then the model's own, and the request is an ordinary one.
 * `prompt_logprobs` would return all of them at once, but crashes vLLM's CPU build when another request runs through an adapter. It is used only
 * if the server returns log-probs after its filters, where a forced token has 0, or cannot force tokens.
 */
import type { AskedModel, LoraReplica } from './lora-routes.ts';
import { isInImage, type ProbedPrompt, promptBefore } from './pictured-prompt.ts';
import type { LogProbProbe } from '../weight-publisher.ts';

export interface LogProbDifference {
  /** Mean |difference| over the compared tokens, in nats. */
  readonly mean: number;
  readonly max: number;
}

export interface ServedLogProbs {
  /** Indices into the probe's targets. [K] */
  readonly chosen: readonly number[];
  /** [K] */
  readonly logProbs: readonly number[];
}

/** Enough to tell an adapter from its base if rounding moves every token, few enough for one batch of short requests. */
export const PROBED_TOKENS = 32;
/** An adapter that moves no token by this share of the tolerance cannot be told from its base. */
const LEAST_EFFECT = 0.02;

/** In nats, unless publish.probe_tolerance is set. `dtype` is the trainer's. */
export function defaultTolerance(dtype: string): number {
  return dtype === 'float32' ? 1e-3 : 0.05;
}

/** Says what is wrong with a probe; null if nothing is. */
export function probeFault(probe: LogProbProbe): string | null {
  const { ids, targets, logProbs, baseLogProbs, tolerance } = probe;
  if (targets.length === 0 || targets.length !== logProbs.length) {
    return `The probe has ${logProbs.length} log-probs for ${targets.length} targets; it needs one for each, and at least one target`;
  }
  const astray = targets.findIndex((target, i) => target < 1 || target >= ids.length || (i > 0 && target <= targets[i - 1]!));
  if (astray >= 0) return `The probe's targets must ascend from 1 to at most ${ids.length - 1}, got ${targets[astray]}`;
  const inside = targets.find((target) => isInImage(probe, target));
  if (inside !== undefined) return `The probe's target ${inside} is a token of an image, which no model samples`;
  if (baseLogProbs !== undefined && baseLogProbs.length !== targets.length) {
    return `The probe has ${baseLogProbs.length} log-probs of the base for ${targets.length} targets; it needs one for each`;
  }
  const bad = logProbs.findIndex((logProb) => !(Number.isFinite(logProb) && logProb <= 1e-3));
  if (bad >= 0) return `The gradient backend returned log-prob ${logProbs[bad]} for target ${targets[bad]}; it must be finite and at most 0`;
  return tolerance > 0 ? null : `The probe's tolerance must be above 0, got ${tolerance}`;
}

/** `forced`: each token is sampled with no other token allowed. `prompt`: one request returns the log-probs of the prompt's tokens. */
export type Judgement = 'forced' | 'prompt';

/** Requests at most 32 of the targets, spread evenly. Rejects as LoraReplica's log-prob requests do. */
export async function servedLogProbs(
  replica: LoraReplica,
  probe: LogProbProbe,
  { judgement, signal, ...asked }: AskedModel & { readonly judgement: Judgement; readonly signal: AbortSignal },
): Promise<ServedLogProbs> {
  const chosen = spread(probe.targets.length, PROBED_TOKENS);
  const places = chosen.map((k) => probe.targets[k]!);
  const forced = judgement === 'forced' ? await forcedLogProbs(replica, asked, probe, places, signal) : null;
  return { chosen, logProbs: forced ?? (await replica.promptLogProbs(asked, promptBefore(probe, places.at(-1)! + 1), places, signal)) };
}

/** Null if the server does not support `allowed_token_ids`. */
async function forcedLogProbs(
  replica: LoraReplica,
  asked: AskedModel,
  prompt: ProbedPrompt,
  places: readonly number[],
  signal: AbortSignal,
): Promise<number[] | null> {
  const logProbs = Array.from<number | null>({ length: places.length }).fill(null);
  const ask = async (k: number) => {
    logProbs[k] = await replica.forcedLogProb(asked, promptBefore(prompt, places[k]!), prompt.ids[places[k]!]!, signal);
  };
  // The longest prompt goes first and alone: it fills the prefix cache for the others, and a server that computes NaN gets only one request.
  await ask(places.length - 1);
  if (logProbs.at(-1) === null) return null;
  await Promise.all(places.slice(0, -1).map((_, k) => ask(k)));
  return logProbs.every((logProb) => logProb !== null) ? logProbs : null;
}

/**
 * Chooses a sequence's tokens for a probe. Half are those whose log-prob the adapter moves most: at a small learning rate it moves most tokens by less
 * than half precision can show. Half are spread over the rest, because rounding also moves the first half most. Ascending indices.
 */
export function tellingTokens(logProbs: ArrayLike<number>, baseLogProbs: ArrayLike<number>): number[] {
  const effect = (i: number) => Math.abs(logProbs[i]! - baseLogProbs[i]!);
  const byEffect = Array.from({ length: logProbs.length }, (_, i) => i).toSorted((a, b) => effect(b) - effect(a) || a - b);
  const most = byEffect.slice(0, PROBED_TOKENS / 2);
  const rest = byEffect.slice(PROBED_TOKENS / 2).toSorted((a, b) => a - b);
  const others = spread(rest.length, PROBED_TOKENS - most.length).map((i) => rest[i]!);
  return [...most, ...others].toSorted((a, b) => a - b);
}

/**
 * Tells whether the server's base must be probed as well: if the adapter moves these tokens by less than the tolerance on average, the base would pass too,
 * so a pass proves nothing. Not needed if it moves none of them.
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
 * Infers from the base's log-probs why the probe failed. `served`, `trained` and `base` are log-probs of the same tokens: the server's under the
 * new name, the trainer's, and the server's without an adapter.
 */
export function probeHint(served: readonly number[], trained: readonly number[], base: readonly number[], tolerance: number): string {
  if (served.every((logProb) => logProb === 0)) {
    return 'the server returns 0 for every forced token, so it computes log-probs after its filters (--logprobs-mode processed_logprobs), unlike at the start of the run';
  }
  const servedOff = difference(served, base).mean;
  const trainedOff = difference(trained, base).mean;
  // Two readings of the same model differ by less than this.
  const same = tolerance / 10;
  if (servedOff < same && trainedOff < tolerance)
    return 'the adapter hardly changes the base, so server and trainer use different bases, dtypes or temperatures';
  if (servedOff < same) return "the server returns the base's log-probs under the new name: the adapter is not applied";
  if (trainedOff < same) return "the trainer's log-probs equal the base's: its adapter was off, or not trained yet, when the probe was computed";
  return `the adapter is applied (it moves the server's log-probs by ${nats(servedOff)} and the trainer's by ${nats(trainedOff)} on average): check for another base model, another alpha / rank, or a temperature other than 1 in the trainer`;
}

export function nats(value: number): string {
  return `${value.toPrecision(3)} nats`;
}

/** At most `count` evenly spread indices from 0 to length - 1. */
function spread(length: number, count: number): number[] {
  if (length <= count) return Array.from({ length }, (_, i) => i);
  return Array.from({ length: count }, (_, i) => Math.round((i * (length - 1)) / (count - 1)));
}
