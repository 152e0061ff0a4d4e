import type { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { CancelledError, type PublishError } from '../../src/core/errors.ts';
import type { CatchUpResult, PublishRequest, PublishResult, RehearsalResult, WeightPublisher } from '../../src/trainer/weight-publisher.ts';

/** A publisher without servers: advances the versions, waits for leases as the interface says, and remembers what it was asked. */
export class MemoryPublisher implements WeightPublisher {
  readonly requests: PublishRequest[] = [];
  readonly retired: number[] = [];
  /** Replicas that were asked to catch up, with the model that served then. */
  caughtUp: string[] = [];
  /** Whether replicas that catch up have lost the version meanwhile. */
  hasLost = false;
  /** Why replicas cannot catch up; null lets them. */
  catchUpFailure: PublishError | null = null;
  /** The failures of the next publishes; null publishes. */
  failure: PublishError | null = null;
  /** Replicas that would refuse a failed version again. */
  refused: readonly string[] = [];
  /** Runs before each publish. */
  before: () => Promise<void> = async () => {};
  isClosed = false;
  readonly #versions: PolicyVersions;

  constructor(versions: PolicyVersions) {
    this.#versions = versions;
  }

  async catchUp(replica: string, signal: AbortSignal): Promise<CatchUpResult> {
    const { model, version } = this.#versions.current();
    this.caughtUp.push(`${replica} ${model}`);
    if (signal.aborted) throw new CancelledError('Stopped while a replica caught up', { cause: signal.reason });
    if (this.catchUpFailure !== null) return { ok: false, reason: this.catchUpFailure };
    this.#versions.replicas.admit(replica, [model]);
    return { ok: true, isLoaded: this.hasLost && version > 0 };
  }

  async publish(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { version, name } = request;
    this.requests.push(request);
    await this.before();
    if (signal.aborted) throw new CancelledError('Stopped while a version was published', { cause: signal.reason });
    if (this.failure !== null) return { ok: false, kept: this.#versions.current(), reason: this.failure, refused: this.refused };
    const ref = { version, model: name };
    this.#versions.advance(ref);
    const seconds = { checkSeconds: 0, loadSeconds: 0, probeSeconds: 0 };
    return { ok: true, ref, report: { ...seconds, probeMeanDifference: 0, probeMaxDifference: 0 } };
  }

  async rehearse(): Promise<RehearsalResult> {
    return { reason: this.failure, refused: [] };
  }

  async clear(): Promise<void> {}

  async retire(olderThan: number, signal: AbortSignal): Promise<void> {
    this.retired.push(olderThan);
    for (let version = 0; version < olderThan; version++) await this.#versions.drained(version, signal);
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}
