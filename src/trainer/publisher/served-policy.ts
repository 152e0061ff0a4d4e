/** The served policy: publishes the backend's weights, and publishes them again if a server lost them. */
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CallQueue } from '../../core/call-queue.ts';
import { GradientError, PublishError, TrainingError } from '../../core/errors.ts';
import type { GradientBackend } from '../gradients/gradient-backend.ts';
import type { PolicyServers } from './policy-servers.ts';
import { defaultTolerance, tellingTokens } from './log-prob-probe.ts';
import type { LogProbProbe, PublishReport, PublishRequest, PublishResult, WeightPublisher } from './weight-publisher.ts';
import type { TrainingEvent } from '../loop/training-observer.ts';

/** Number of tokens to choose a probe from: a forward pass over one sequence is cheap. */
const CONSIDERED_TOKENS = 256;

export interface ServedPolicyOptions {
  readonly backend: GradientBackend;
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  readonly servers: PolicyServers;
  /** Directory for a version's adapter; a retry of the same version appends a number. */
  readonly adapterDirectory: (version: number) => string;
  /** Null: 0.001 nats in float32, 0.05 otherwise. */
  readonly tolerance: number | null;
  /** How many versions behind the newest may still be sampled from. */
  readonly maxStaleness: number;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
}

/** A sequence on which trainer and server must agree. */
export interface ProbeText {
  readonly ids: Int32Array;
  /** Indices of the tokens that may be compared, ascending, from 1. */
  readonly targets: Int32Array;
}

/** How the text of a probe is rendered: every model renders a continuation, with a chat template or without. */
export const PROBE_FORMAT = { format: 'continuation' } as const;

export type Published = { readonly ok: true; readonly report: PublishReport } | { readonly ok: false; readonly reason: PublishError };

export class ServedPolicy {
  readonly #options: ServedPolicyOptions;
  /** The request that published the current version; null while the base serves. */
  #request: PublishRequest | null = null;
  /** Serialises publishing and recovery: a background sampler may find the server gone during a training step. */
  readonly #turns = new CallQueue();
  /** Versions that may still be sampled from, ascending. */
  #servedVersions: readonly number[];
  /** Number of times each version was written. */
  readonly #tries = new Map<number, number>();

  constructor(options: ServedPolicyOptions) {
    this.#options = options;
    this.#servedVersions = [options.versions.current().version];
  }

  get version(): number {
    return this.#options.versions.current().version;
  }

  /** Publishes the backend's weights as `version`. */
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
      // Counts versions that served: version numbers have gaps where a step changed nothing.
      await publisher.retire(this.#servedVersions.at(-1 - maxStaleness) ?? 0, signal);
      return { ok: true, report: result.report };
    });
  }

  /** Waits for the servers, and publishes the current version again under a new name if one of them lost it. Resolves with the name that serves now. */
  recover(signal: AbortSignal): Promise<string> {
    return this.#turns.run(async () => {
      const { servers, versions, report } = this.#options;
      const { model, version } = versions.current();
      report({ kind: 'policy_lost', message: 'Waiting for the policy server' });
      const { lostAdapters } = await servers.recover(model, signal);
      if (lostAdapters && this.#request !== null) {
        const result = await this.#offer(this.#request, signal);
        if (!result.ok) throw new TrainingError(`Cannot publish version ${version} again: ${result.reason.message}`, { cause: result.reason });
      }
      const again = lostAdapters && this.#request !== null ? `; version ${version} serves again as ${versions.current().model}` : '';
      report({ kind: 'policy_recovered', message: `The policy server answers again${again}` });
      return versions.current().model;
    });
  }

  /** Retries once after a transient failure, once the servers are back. */
  async #offer(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { publisher, servers, versions, report } = this.#options;
    const first = await publisher.publish(request, signal);
    if (first.ok || !first.reason.retryable) return first;
    report({ kind: 'policy_lost', message: `Waiting for the policy server. ${first.reason.message}` });
    await servers.recover(versions.current().model, signal);
    const second = await publisher.publish(request, signal);
    if (second.ok)
      report({ kind: 'policy_recovered', message: `The policy server answers again; version ${second.ref.version} serves as ${second.ref.model}` });
    return second;
  }

  /** Returns a PublishError if the backend's log-probs are not finite: the server could then not be verified. */
  async #probe({ ids, targets }: ProbeText, signal: AbortSignal): Promise<LogProbProbe | PublishError> {
    const { backend, tolerance } = this.#options;
    // From the end, where the tokens are the policy's own and the adapter's effect is largest.
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
        tolerance: tolerance ?? defaultTolerance(backend.capabilities.dtype),
      };
    } catch (cause) {
      if (!(cause instanceof GradientError) || cause.code !== 'not_finite') throw cause;
      return new PublishError(`The trainer has no finite log-probs to compare with the server's: ${cause.message}`, { cause });
    }
  }

  /** A new directory for every attempt: a version whose publish failed is retried after a step that changed nothing. */
  #directory(version: number): string {
    const tries = (this.#tries.get(version) ?? 0) + 1;
    this.#tries.set(version, tries);
    return `${this.#options.adapterDirectory(version)}${tries === 1 ? '' : `-${tries}`}`;
  }
}
