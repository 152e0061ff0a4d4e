/** The served policy: publishes the backend's weights, and gives them again to replicas that lost them. */
import { join } from 'node:path';
import type { PlacedImage } from '../../core/message.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { ConfigError, GradientError, PublishError } from '../../core/errors.ts';
import { microBatchOf } from '../gradients/pack-batches.ts';
import type { GradientBackend } from '../gradient-backend.ts';
import { defaultTolerance, PROBED_TOKENS, tellingTokens } from './log-prob-probe.ts';
import { ReplicaKeeper, ServingTurns } from './replica-keeper.ts';
import type { LogProbProbe, PolicyServers, PublishReport, PublishRequest, PublishResult, WeightPublisher } from '../weight-publisher.ts';
import type { TrainingEvent } from '../training-observer.ts';

/** Number of tokens to choose a probe from: a forward pass over one sequence is cheap. */
const CONSIDERED_TOKENS = 256;

export interface ServedPolicyOptions {
  readonly backend: GradientBackend;
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  readonly servers: PolicyServers;
  /** Names of this run at the servers, and of the directories below `adaptersDirectory`. */
  readonly names: VersionNames;
  readonly adaptersDirectory: string;
  /** The run starts from an adapter, so that its version 0 is not the base that the servers have. */
  readonly hasInitialAdapter: boolean;
  /** Null: 0.001 nats in float32, 0.05 otherwise. */
  readonly tolerance: number | null;
  /** The number of versions behind the newest that may still be sampled from. */
  readonly maxStaleness: number;
  /** Number of replicas that must have a version before it is sampled from. */
  readonly quorum: number;
  /** The time for which the run waits for a replica that answers but does not serve the version. @default half an hour */
  readonly patienceMs?: number;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
  /** Ends the work in the background. */
  readonly signal: AbortSignal;
}

/** A sequence on which trainer and server must agree. */
export interface ProbeText {
  readonly ids: Int32Array;
  /** Indices of the tokens that may be compared, ascending, from 1. */
  readonly targets: Int32Array;
  /** The images among the ids, in order. @default none */
  readonly images?: readonly PlacedImage[];
}

/** The sequences that verify a publish. */
export interface ProbeTexts {
  /** Without images. */
  readonly text: ProbeText;
  /** With images, and every target behind one. @default the run has none */
  readonly pictured?: ProbeText;
}

export type Published = { readonly ok: true; readonly report: PublishReport } | { readonly ok: false; readonly reason: PublishError };

export class ServedPolicy {
  readonly #options: ServedPolicyOptions;
  readonly #keeper: ReplicaKeeper;
  /** The base's name at the servers. */
  readonly #base: string;
  /** A replica may come back during a training step. */
  readonly #turns = new ServingTurns();
  /** Versions published so far. */
  #published = 0;
  /** Settled once no version is being retired in the background. */
  #retired: Promise<void> = Promise.resolve();
  /** Versions that may still be sampled from, ascending. */
  #servedVersions: readonly number[];

  constructor(options: ServedPolicyOptions) {
    this.#options = options;
    const { version, model } = options.versions.current();
    this.#base = model;
    this.#servedVersions = [version];
    this.#keeper = new ReplicaKeeper({ ...options, turns: this.#turns });
  }

  /** The version that the servers have; null while they serve the base although the run's first version is an adapter. */
  get version(): number | null {
    const { versions, hasInitialAdapter } = this.#options;
    const { version, model } = versions.current();
    // Weights that change in flight are an adapter's, from the first version on.
    return (hasInitialAdapter || versions.isInFlight) && model === this.#base ? null : version;
  }

  /** Publishes the backend's weights as `version`. */
  async publish(version: number, { text, pictured }: ProbeTexts, signal: AbortSignal): Promise<Published> {
    const { backend, names, adaptersDirectory } = this.#options;
    // A new directory too: a version whose publish failed is published again after a step that changed nothing.
    const name = names.next(version);
    const manifest = await backend.saveAdapter(join(adaptersDirectory, name));
    const probe = await this.#probe(text, signal);
    if (probe instanceof PublishError) return { ok: false, reason: probe };
    const second = pictured === undefined ? null : await this.#probe(pictured, signal);
    if (second instanceof PublishError) return { ok: false, reason: second };
    const result = await this.#offer({ version, name, manifest, probe, ...(second === null ? {} : { pictured: second }) }, signal);
    return result.ok ? { ok: true, report: result.report } : { ok: false, reason: result.reason };
  }

  /**
   * Waits until enough replicas serve the current version; one that lost it gets it again under the same name. Resolves with whether one did. Throws
   * PolicyError if too few come back, TrainingError if too few can be given the version.
   */
  async recover(signal: AbortSignal): Promise<boolean> {
    const { servers, report, quorum } = this.#options;
    const count = servers.replicas.length;
    report({
      kind: 'policy_lost',
      message: count === 1 ? 'Waiting for the policy server' : `Waiting until ${quorum} of ${count} policy servers answer`,
    });
    const before = this.#keeper.given;
    await this.#keeper.check(signal);
    const wasGiven = this.#keeper.given > before;
    report({ kind: 'policy_recovered', message: this.#recoveredText(wasGiven) });
    return wasGiven;
  }

  /**
   * `recover` for a caller of its own, such as the rollouts of a batch: resolves with whether a replica was given a version, again or newly published,
   * since the caller began or called it last. Requests that a server refused before then, because it did not have the version, may succeed now.
   */
  recovery(): (signal: AbortSignal) => Promise<boolean> {
    const changes = () => this.#keeper.given + this.#published;
    let seen = changes();
    return async (signal) => {
      await this.recover(signal);
      const hasChanged = changes() > seen;
      seen = changes();
      return hasChanged;
    };
  }

  /** Resolves when nothing is done in the background any more, after the signal has aborted. */
  async settled(): Promise<void> {
    await this.#keeper.settled();
    await this.#retired;
  }

  #recoveredText(wasGiven: boolean): string {
    const { servers, versions } = this.#options;
    const { version, model } = versions.current();
    const again = wasGiven ? `; version ${version} serves again as ${model}` : '';
    return servers.replicas.length === 1 ? `The policy server answers again${again}` : `${this.#keeper.text}${again}`;
  }

  /** Retries once after a transient failure, once enough servers are back. */
  async #offer(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const first = await this.#publishNext(request, signal);
    if (first.ok || !first.reason.retryable) return first;
    const { report, names } = this.#options;
    report({ kind: 'policy_lost', message: `Waiting for the policy server. ${first.reason.message}` });
    await this.#keeper.check(signal, first.refused);
    const second = await this.#publishNext({ ...request, name: names.next(request.version) }, signal);
    if (second.ok)
      report({ kind: 'policy_recovered', message: `The policy server answers again; version ${second.ref.version} serves as ${second.ref.model}` });
    return second;
  }

  #publishNext(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { publisher, maxStaleness, versions } = this.#options;
    const publish = async () => {
      const result = await publisher.publish(request, signal);
      if (!result.ok) return result;
      this.#published++;
      this.#servedVersions = [...this.#servedVersions, request.version].slice(-1 - maxStaleness);
      // Counts versions that served: version numbers have gaps after steps that changed nothing.
      const oldest = this.#servedVersions.at(-1 - maxStaleness) ?? 0;
      if (maxStaleness < 2 && !versions.isInFlight) await publisher.retire(oldest, signal);
      else this.#retireLater(oldest);
      return result;
    };
    return this.#turns.alone(publish, { interrupts: true });
  }

  /** A long rollout keeps its version; the step does not wait for it. */
  #retireLater(olderThan: number): void {
    const { publisher, versions, signal } = this.#options;
    const drained = async () => {
      for (let version = 0; version < olderThan; version++) await versions.drained(version, signal);
      await this.#turns.alone(() => publisher.retire(olderThan, signal), { interrupts: false });
    };
    // Only a cancellation is thrown.
    this.#retired = this.#retired.then(drained).catch(() => {});
  }

  /** Returns a PublishError if the backend's log-probs are not finite: the server could then not be verified. */
  async #probe(probed: ProbeText, signal: AbortSignal): Promise<LogProbProbe | PublishError> {
    const { backend, tolerance } = this.#options;
    const { ids, images } = probed;
    const considered = consideredTokens(probed);
    const judged = async (adapter: 'on' | 'off') => {
      const { batch } = microBatchOf([{ ...probed, targets: considered }], [0], 1);
      return (await backend.forward(batch, { retain: false, adapter, signal })).logProbs;
    };
    try {
      const [on, off] = [await judged('on'), await judged('off')];
      const chosen = tellingTokens(on, off);
      return {
        ids,
        ...(images === undefined ? {} : { images }),
        targets: Int32Array.from(chosen, (k) => considered[k]!),
        logProbs: Float32Array.from(chosen, (k) => on[k]!),
        baseLogProbs: Float32Array.from(chosen, (k) => off[k]!),
        tolerance: tolerance ?? defaultTolerance(backend.capabilities.dtype),
      };
    } catch (cause) {
      if (!(cause instanceof GradientError) || cause.code !== 'not_finite') throw cause;
      return new PublishError(`The trainer has no finite log-probs to compare with the server's: ${cause.message}`, { cause });
    }
  }
}

/** Takes tokens from the end, where they are the policy's own and the adapter's effect is largest, and tokens before them if those are too few. */
function consideredTokens(probed: ProbeText): Int32Array {
  const own = probed.targets.slice(-CONSIDERED_TOKENS);
  const first = own[0] ?? 1;
  const start = (probed.images ?? []).map(({ offset, length }) => offset + length).findLast((end) => end <= first) ?? 1;
  const before = Math.min(Math.max(0, PROBED_TOKENS - own.length), first - start);
  return Int32Array.from({ length: before + own.length }, (_, i) => (i < before ? first - before + i : own[i - before]!));
}

/**
 * Names each attempt to publish a version: `run-v000012`, then `run-v000012-2`. The server serves the adapter under that name, and the adapter's directory
 * has the name of the attempt for which it was written. A name is never used twice: a server may still hold the adapter of a failed attempt.
 */
export class VersionNames {
  readonly #runName: string;
  readonly #attempts = new Map<number, number>();

  /** Throws ConfigError if servers could not serve such a name. */
  constructor(runName: string) {
    // It becomes part of a model name, which some servers use as a path.
    if (!/^[\w][\w.-]{0,99}$/.test(runName))
      throw new ConfigError(`The run name may have up to 100 letters, digits, dots, dashes and underscores, got ${JSON.stringify(runName)}`);
    this.#runName = runName;
  }

  next(version: number): string {
    const attempt = (this.#attempts.get(version) ?? 0) + 1;
    this.#attempts.set(version, attempt);
    return `${this.#runName}-v${String(version).padStart(6, '0')}${attempt === 1 ? '' : `-${attempt}`}`;
  }
}
