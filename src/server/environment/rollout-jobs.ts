/** `POST /v1/rollouts`: begins a job for each request; a request with the `request_id` of an earlier one gets that one's job. */
import type { Row } from '../../core/dataset.ts';
import { CancelledError, ConfigError, ResultsError } from '../../core/errors.ts';
import { Limiter } from '../../core/limiter.ts';
import { MOST_ROLLOUTS, type RolloutsRequest } from '../../schemas/environment-server/rollouts-request.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { EnvironmentRefusal } from './environment-refusal.ts';
import { RolloutJob } from './rollout-job.ts';
import type { ServedEnvironment } from './served-environment.ts';
import type { PolicyAddress, ServedPolicies } from './served-policies.ts';
import { countText } from '../../core/count-text.ts';

export interface RolloutJobsOptions {
  readonly served: ServedEnvironment;
  readonly policies: ServedPolicies;
  /** Rollouts in flight in all jobs, and jobs under way, at most. */
  readonly maxSessions: number;
  /** The time for which the lines of a job with a `request_id` are kept after their last use, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
  readonly onFailure: (error: unknown) => void;
  /** Bytes of lines that no client has read yet, or that are kept under a `request_id`. @default 512 MiB */
  readonly maxBytes?: number;
}

const DEFAULT_CONCURRENCY = 32;
/** Of a job without its request and its lines. */
const JOB_BYTES = 1024;

interface Kept {
  readonly job: RolloutJob;
  /** The request without its id, to recognise another request under the same id. */
  readonly request: string;
}

export class RolloutJobs {
  readonly #options: RolloutJobsOptions;
  readonly #slots: Limiter;
  readonly #running = new Set<RolloutJob>();
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;

  constructor(options: RolloutJobsOptions) {
    this.#options = options;
    this.#slots = new Limiter(options.maxSessions);
    options.held.onFull(() => this.#forgetOldest());
  }

  /** Rollouts in flight. */
  get active(): number {
    return this.#slots.active;
  }

  /** The lines of the answer. Rejects with EnvironmentRefusal or ConfigError if the request cannot be played; a policy that is down fails each rollout. */
  async answer({ request_id: id, ...request }: RolloutsRequest, signal: AbortSignal): Promise<AsyncGenerator<string, void>> {
    this.#forgetIdle();
    const known = id === undefined ? undefined : this.#kept.get(id);
    const text = JSON.stringify(request);
    if (known !== undefined && known.request !== text) {
      throw new EnvironmentRefusal(
        409,
        `request_id ${JSON.stringify(id)} was used for another request. Use another one, or send that request again.`,
      );
    }
    const job = known?.job ?? this.#job(request, { keepsLines: id !== undefined, bytes: JOB_BYTES + 4 * text.length });
    // Before the first wait, so that a request that is sent twice at once is played once.
    if (known === undefined && id !== undefined) this.#kept.set(id, { job, request: text });
    // The lines of an ended job need no policy.
    if (!job.isDone) {
      await this.#assertPlayable(job.address, signal).catch((error: unknown) => {
        if (known === undefined && id !== undefined) this.#forget(id, job);
        throw error;
      });
    }
    return this.#read(job, signal);
  }

  async close(): Promise<void> {
    for (const job of this.#running) job.stop(new CancelledError('The server is stopping'));
    await Promise.all([...this.#running].map((job) => job.idle()));
  }

  async #assertPlayable(address: PolicyAddress, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.policies.use(address, signal, async () => {});
    } catch (error) {
      if (error instanceof ConfigError) throw error;
    }
  }

  async *#read(job: RolloutJob, signal: AbortSignal): AsyncGenerator<string, void> {
    this.#running.add(job);
    try {
      yield* job.read(signal);
    } finally {
      if (!job.keepsLines) job.drop();
      void job.idle().then(() => this.#running.delete(job));
    }
  }

  #job(request: Omit<RolloutsRequest, 'request_id'>, { keepsLines, bytes }: { readonly keepsLines: boolean; readonly bytes: number }): RolloutJob {
    const { served, policies, maxSessions, onFailure } = this.#options;
    const { policy, rollouts_per_example: rolloutsPerExample = 1, max_concurrent: most = DEFAULT_CONCURRENCY } = request;
    const address = {
      baseUrl: policy.base_url,
      model: policy.model ?? null,
      keyVariable: policy.api_key_var ?? null,
      kind: policy.kind ?? 'auto',
      version: policy.version ?? 0,
    } as const;
    policies.assertAllowed(address);
    const { sampling, maxTokens } = policies.readSampling(request.sampling ?? {}, address.kind);
    const rows = rowsOf(request.example_ids, served);
    const total = rows.length * rolloutsPerExample;
    if (total > MOST_ROLLOUTS)
      throw new EnvironmentRefusal(422, `The request has ${countText(total)} rollouts. Send at most ${countText(MOST_ROLLOUTS)} at a time.`);
    if (this.#running.size >= maxSessions)
      throw new EnvironmentRefusal(503, `${this.#running.size} requests are being played (--max-sessions). Try again later.`);
    if (!this.#options.held.makeRoom(bytes)) throw new EnvironmentRefusal(503, `${this.#options.held.fullText}. Try again later.`);
    return new RolloutJob({
      bytes,
      served,
      policies,
      address,
      sampling,
      maxTokens,
      rows,
      rolloutsPerExample,
      maxConcurrent: Math.min(most, total, maxSessions),
      withMessages: request.messages === true,
      slots: this.#slots,
      keepsLines,
      onRequestBytes: (change) => this.#options.held.hold(change),
      onBytes: (change) => this.#hold(change),
      assertRoom: () => this.#assertRoom(),
      onFailure,
    });
  }

  #hold(change: number): void {
    this.#bytes += change;
    this.#options.held.hold(change);
  }

  /** Forgets the oldest job that has ended and that nobody reads. False if there is none. */
  #forgetOldest(): boolean {
    for (const [id, { job }] of this.#kept) {
      if (!job.isDone || job.hasReaders) continue;
      this.#forget(id, job);
      return true;
    }
    return false;
  }

  /** Throws ResultsError if a rollout that has ended has no room. */
  #assertRoom(): void {
    const { maxBytes = 512 * 2 ** 20, held } = this.#options;
    while (this.#bytes > maxBytes && this.#forgetOldest());
    if (this.#bytes <= maxBytes && held.makeRoom()) return;
    throw new ResultsError(
      `The server holds ${Math.round(this.#bytes / 2 ** 20)} MiB of rollouts that are unread or kept under a request_id. Read them faster, or send smaller requests.`,
    );
  }

  #forgetIdle(): void {
    const oldest = performance.now() - this.#options.idleTimeoutMs;
    for (const [id, { job }] of this.#kept) if (!this.#running.has(job) && job.lastUsedAt < oldest) this.#forget(id, job);
  }

  #forget(id: string, job: RolloutJob): void {
    this.#kept.delete(id);
    job.drop();
  }
}

/** Throws EnvironmentRefusal for an unknown row, or one that is named twice. */
function rowsOf(exampleIds: readonly (string | number)[], served: ServedEnvironment): readonly Row[] {
  const rows = new Set<Row>();
  for (const [place, exampleId] of exampleIds.entries()) {
    const row = served.row(exampleId);
    if (row === null) throw new EnvironmentRefusal(422, `example_ids[${place}]: ${served.unknownRow(exampleId)}`);
    if (rows.has(row)) {
      throw new EnvironmentRefusal(
        422,
        `example_ids[${place}]: ${JSON.stringify(exampleId)} occurs twice. Name each row once; rollouts_per_example plays it several times.`,
      );
    }
    rows.add(row);
  }
  return [...rows];
}
