/** Brings one adapter to one replica and proves that the replica applies it: loads it, reads its card, compares log-probs. */
import { describeError, PublishError } from '../../core/errors.ts';
import type { AdapterDescription } from '../gradient-backend.ts';
import { otherBase } from './base-check.ts';
import type { LoadedAdapter } from './loaded-adapters.ts';
import { difference, isBaseNeeded, type Judgement, type LogProbDifference, nats, probeHint, servedLogProbs } from './log-prob-probe.ts';
import { ModelGoneError, rankError } from './lora-refusals.ts';
import type { LoraReplica } from './lora-routes.ts';
import type { LogProbProbe } from '../weight-publisher.ts';

export interface AdapterLoaderOptions {
  /** The servers' name of the base model. */
  readonly baseModel: string;
  /** The description that every adapter must match. */
  readonly adapter: AdapterDescription;
  readonly judgement: Judgement;
}

/** An adapter as the servers see it. */
export interface ServedAdapter {
  /** Unique to these weights; also the salt of the prefix cache. */
  readonly model: string;
  /** The servers' path. */
  readonly path: string;
  /** At least one. */
  readonly probes: readonly LogProbProbe[];
}

/** One replica's times in seconds, and its probe's result. */
export interface LoadReport extends LogProbDifference {
  readonly loadSeconds: number;
  readonly probeSeconds: number;
}

export class AdapterLoader {
  readonly #options: AdapterLoaderOptions;

  constructor(options: AdapterLoaderOptions) {
    this.#options = options;
  }

  /** Rejects with a PublishError that says what the replica does wrong. `loaded` is called with the replicas that may have the adapter. */
  async bring(replica: LoraReplica, served: ServedAdapter, loaded: LoadedAdapter['replicas'], signal: AbortSignal): Promise<LoadReport> {
    const { rank } = this.#options.adapter;
    const { model, path } = served;
    const limit = await replica.maxRank(signal);
    if (limit !== null && limit < rank) throw rankError(rank, limit, null);
    const loadMs = performance.now();
    loaded.set(replica, 'asked');
    try {
      await replica.load(model, path, signal);
    } catch (error) {
      // An answer with a status is a definite refusal, so the adapter cannot appear later.
      if (error instanceof PublishError && error.status !== null) loaded.delete(replica);
      throw error;
    }
    loaded.set(replica, 'loaded');
    const loadSeconds = secondsSince(loadMs);
    const probeMs = performance.now();
    try {
      await this.#checkCard(replica, served, signal);
      const found: LogProbDifference[] = [];
      for (const probe of served.probes) found.push(await this.#compare(replica, served.model, probe, signal));
      const worst = { mean: Math.max(...found.map(({ mean }) => mean)), max: Math.max(...found.map(({ max }) => max)) };
      return { ...worst, loadSeconds, probeSeconds: secondsSince(probeMs) };
    } catch (error) {
      if (!(error instanceof ModelGoneError)) throw error;
      throw new PublishError(`The server lost ${model} just after loading it and was probably restarted. Publish again (${error.message})`, {
        cause: error,
        retryable: true,
        status: 404,
      });
    }
  }

  async #checkCard(replica: LoraReplica, { model, path }: ServedAdapter, signal: AbortSignal): Promise<void> {
    const { baseModel } = this.#options;
    const card = await replica.card(model, signal);
    if (card === null) throw new ModelGoneError(`${replica.url} does not list ${model} among its models`);
    if (card.root !== path) throw new PublishError(`The server loaded ${model} from ${card.root} instead of ${path}`);
    const parent = card.parent ?? baseModel;
    if (parent === baseModel) return;
    // A server may have several names for one base: each is a card without a parent.
    const base = await replica.card(baseModel, signal);
    if (base === null || (base.parent ?? null) !== null)
      throw new PublishError(`The replica serves another base: ${model} is an adapter of ${parent} instead of ${baseModel}`, { endsRun: true });
  }

  async #compare(replica: LoraReplica, model: string, probe: LogProbProbe, signal: AbortSignal): Promise<LogProbDifference> {
    const { judgement } = this.#options;
    const { chosen, logProbs } = await servedLogProbs(replica, probe, { model, cacheSalt: model, judgement, signal });
    const trained = chosen.map((i) => probe.logProbs[i]!);
    const found = difference(logProbs, trained);
    const { baseModel } = this.#options;
    const over = `over ${chosen.length} tokens${(probe.images ?? []).length === 0 ? '' : ' behind images'}`;
    const askBase = () => servedLogProbs(replica, probe, { model: baseModel, judgement, signal });
    if (found.mean <= probe.tolerance) {
      if (!isBaseNeeded(probe, chosen)) return found;
      const { logProbs: servedBase } = await askBase();
      const trainedBase = chosen.map((i) => probe.baseLogProbs![i]!);
      const verdict = judgeApplication({ served: logProbs, servedBase, trained, trainedBase, tolerance: probe.tolerance });
      if (verdict.kind !== 'not_applied') return found;
      throw new PublishError(
        `The adapter is not applied: ${over} the log-probs of ${model} are those of ${baseModel}. They show ${Math.round(100 * verdict.share)} % of the adapter's effect of ${nats(verdict.effect)}; the noise is ${nats(verdict.noise)}`,
      );
    }
    const base = await askBase().catch(
      (error: unknown) => `the base model ${baseModel} could not be probed for comparison (${describeError(error)})`,
    );
    if (typeof base !== 'string' && probe.baseLogProbs !== undefined) {
      const own = chosen.map((i) => probe.baseLogProbs![i]!);
      // The server was restarted with another model.
      const fault = await otherBase(replica, { baseModel, adapter: this.#options.adapter, signal }, difference(base.logProbs, own), probe.tolerance);
      if (fault !== null) throw new PublishError(fault, { endsRun: true });
    }
    const hint = typeof base === 'string' ? base : probeHint(logProbs, trained, base.logProbs, probe.tolerance);
    throw new PublishError(
      `Log-probs of ${model} differ from the trainer's by ${nats(found.mean)} on average (tolerance ${nats(probe.tolerance)}) and by ${nats(found.max)} at most, ${over}; ${hint}`,
    );
  }

  /** A NaN stays in the server's KV cache and spoils other models. Resets the cache and checks whether that helped. */
  async heal(replica: LoraReplica, probe: LogProbProbe, signal: AbortSignal): Promise<string> {
    const { baseModel, judgement } = this.#options;
    const reset = await replica.resetPrefixCache(signal).catch(() => false);
    const done =
      reset === true
        ? 'its prefix cache was reset'
        : reset === null
          ? 'it has no route to reset its prefix cache'
          : 'its prefix cache could not be reset';
    const first = { ...probe, targets: probe.targets.subarray(-1) };
    const works = await servedLogProbs(replica, first, { model: baseModel, judgement, signal }).then(
      () => true,
      () => false,
    );
    return `${done}, and the base model ${works ? 'works again' : 'still fails: restart that server'}`;
  }
}

export function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}

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

/** A difference must be this many times the noise to count as an effect. */
const CLEAR = 3;
/** Standard errors by which a server must be nearer to its base. */
const CERTAIN = 3;

/**
 * Tests whether a server applies an adapter: are its log-probs under the adapter's name nearer to the trainer's than to its own base's? The test uses one number
 * over all compared tokens, because a single token says nothing if rounding moves every log-prob.
 *
 * `effect` e: how far the trainer's adapter moves a token; `move` d: how far the server's does. The projection share = Σ e·d / Σ e² is about 1 if the
 * adapter is applied and about 0 if not; nearer to the trainer means above 1/2. The noise is measured on the same tokens, as the root mean square
 * difference of the two bases, which both compute without an adapter. The test refuses only if
 * - the effect is clear: its root mean square is at least 3 times the noise. Below, the trainer's own rounding may pass for an effect, and the first step
 *   or a tiny learning rate would make a right publish fail;
 * - the server is nearer to its base by 3 standard errors.
 * Error rates, simulated: test/trainer/publisher/probe-verdict.test.ts.
 */
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
