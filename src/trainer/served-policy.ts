/** The policy as the servers have it: publishes what the backend holds, and publishes it again when a server lost it. */
import type { PolicyVersions } from '../clients/policy-versions.ts';
import { CallQueue } from '../core/call-queue.ts';
import { GradientError, PublishError, TrainingError } from '../core/errors.ts';
import type { GradientBackend } from './gradients/gradient-backend.ts';
import type { PolicyServers } from './policy-servers.ts';
import { tellingTokens } from './publisher/log-prob-probe.ts';
import type { LogProbProbe, PublishReport, PublishRequest, PublishResult, WeightPublisher } from './publisher/weight-publisher.ts';
import type { TrainingEvent } from './training-observer.ts';

/** Tokens that a probe is chosen from: a forward pass of one text costs nothing, its log-probs little. */
const CONSIDERED_TOKENS = 256;

export interface ServedPolicyOptions {
  readonly backend: GradientBackend;
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  readonly servers: PolicyServers;
  /** Where the adapter of a version is written; a further try of the same version gets a number behind it. */
  readonly adapterDirectory: (version: number) => string;
  /** Null: 0.001 nats in float32, 0.05 otherwise. */
  readonly tolerance: number | null;
  /** Versions behind the newest that may still be sampled from. */
  readonly maxStaleness: number;
  readonly tell: (event: Omit<TrainingEvent, 'step'>) => void;
}

/** A text that trainer and server must agree on. */
export interface ProbeText {
  readonly ids: Int32Array;
  /** Places of the tokens that may be compared, ascending, none 0. */
  readonly targets: Int32Array;
}

export type Published = { readonly ok: true; readonly report: PublishReport } | { readonly ok: false; readonly reason: PublishError };

export class ServedPolicy {
  readonly #options: ServedPolicyOptions;
  /** How the version that serves was published; null while the base serves. */
  #request: PublishRequest | null = null;
  /** Publishing and publishing again take turns: a sampler in the background may find the server gone while a step is trained. */
  readonly #turns = new CallQueue();
  /** Those that may still be sampled from, ascending. */
  #servedVersions: readonly number[];
  /** How often each version was written. */
  readonly #tries = new Map<number, number>();

  constructor(options: ServedPolicyOptions) {
    this.#options = options;
    this.#servedVersions = [options.versions.current().version];
  }

  get version(): number {
    return this.#options.versions.current().version;
  }

  /** Publishes what the backend holds as `version`. */
  publish(version: number, probed: ProbeText, signal: AbortSignal): Promise<Published> {
    return this.#turns.run(async () => {
      const { backend, publisher, maxStaleness } = this.#options;
      const manifest = await backend.saveAdapter(this.#directory(version));
      const probe = await this.#probe(probed, signal);
      if (probe instanceof PublishError) return { ok: false, reason: probe };
      const request = { version, manifest, probe };
      const result = await this.#offer(request, signal);
      if (!result.ok) return { ok: false, reason: result.reason };
      this.#request = request;
      this.#servedVersions = [...this.#servedVersions, version].slice(-1 - maxStaleness);
      // Counted in versions that served: numbers have gaps where a step changed nothing.
      await publisher.retire(this.#servedVersions.at(-1 - maxStaleness) ?? 0, signal);
      return { ok: true, report: result.report };
    });
  }

  /** Waits for the servers, and publishes the current version again under a new name where one of them lost it. */
  recover(signal: AbortSignal): Promise<void> {
    return this.#turns.run(async () => {
      const { servers, versions, tell } = this.#options;
      const { model, version } = versions.current();
      tell({ kind: 'policy_lost', message: 'Waiting for the policy server' });
      const { lostAdapters } = await servers.recover(model, signal);
      if (lostAdapters && this.#request !== null) {
        const result = await this.#offer(this.#request, signal);
        if (!result.ok) throw new TrainingError(`Expected to publish version ${version} again: ${result.reason.message}`, { cause: result.reason });
      }
      const again = lostAdapters && this.#request !== null ? `; version ${version} serves again as ${versions.current().model}` : '';
      tell({ kind: 'policy_recovered', message: `The policy server answers${again}` });
    });
  }

  /** Once more where the failure may pass: a server that was restarted meanwhile takes the version as well as the one before. */
  async #offer(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { publisher, servers, versions, tell } = this.#options;
    const first = await publisher.publish(request, signal);
    if (first.ok || !first.reason.retryable) return first;
    tell({ kind: 'policy_lost', message: `Waiting for the policy server. ${first.reason.message}` });
    await servers.recover(versions.current().model, signal);
    const second = await publisher.publish(request, signal);
    if (second.ok)
      tell({ kind: 'policy_recovered', message: `The policy server answers; version ${second.ref.version} serves as ${second.ref.model}` });
    return second;
  }

  /** A PublishError where the backend itself has no numbers for the new weights: nobody could then tell whether the server serves them. */
  async #probe({ ids, targets }: ProbeText, signal: AbortSignal): Promise<LogProbProbe | PublishError> {
    const { backend, tolerance } = this.#options;
    // From the end: there the text is the policy's own, and the adapter has had most to say.
    const considered = targets.slice(-CONSIDERED_TOKENS);
    const judged = async (adapter: 'on' | 'off') => {
      const batch = { ids, offsets: Int32Array.of(0, ids.length), targets: considered, temperature: 1 };
      return (await backend.forward(batch, { retain: false, adapter, signal })).logProbs;
    };
    try {
      const [on, off] = [await judged('on'), await judged('off')];
      const chosen = tellingTokens(on, off);
      return {
        ids,
        targets: Int32Array.from(chosen, (k) => considered[k]!),
        logProbs: Float32Array.from(chosen, (k) => on[k]!),
        baseLogProbs: Float32Array.from(chosen, (k) => off[k]!),
        tolerance: tolerance ?? (backend.capabilities.dtype === 'float32' ? 1e-3 : 0.05),
      };
    } catch (cause) {
      if (!(cause instanceof GradientError) || cause.code !== 'not_finite') throw cause;
      return new PublishError(`Expected finite log-probs to compare the server's with: ${cause.message}`, { cause });
    }
  }

  /** Of its own for every try: a version that no server took is tried again after a step that changed nothing. */
  #directory(version: number): string {
    const tries = (this.#tries.get(version) ?? 0) + 1;
    this.#tries.set(version, tries);
    return `${this.#options.adapterDirectory(version)}${tries === 1 ? '' : `-${tries}`}`;
  }
}
