/** The rollouts of one `POST /v1/rollouts`, and their lines for everybody who reads them. */
import type { Sampling } from '../../clients/policy-client.ts';
import { untilAborted } from '../../core/abort.ts';
import { CancelledError, EnvironmentError, PolicyError, ResultsError, VfError } from '../../core/errors.ts';
import type { Row } from '../../core/dataset.ts';
import type { Limiter } from '../../core/limiter.ts';
import type { Rollout } from '../../rollouts/rollout.ts';
import type { RolloutGroup } from '../../rollouts/run-rollouts.ts';
import { servedLine, type ServedRollout } from '../../schemas/environment-server/served-rollout.ts';
import { samplingColumns } from '../../schemas/sampling-columns.ts';
import type { RolloutsEnd } from '../../schemas/environment-server/rollouts-request.ts';
import type { ServedEnvironment } from './served-environment.ts';
import type { PolicyAddress, ServedPolicies, ServedPolicy } from './served-policies.ts';
import { lostRollout, servedRollout } from './served-rollout.ts';

export interface RolloutJobOptions {
  readonly served: ServedEnvironment;
  readonly policies: ServedPolicies;
  readonly address: PolicyAddress;
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
  readonly rows: readonly Row[];
  readonly rolloutsPerExample: number;
  readonly maxConcurrent: number;
  readonly withMessages: boolean;
  /** Slots of the whole server. */
  readonly slots: Limiter;
  /** Keeps lines that were read, for a request that is sent again. Without, a job has one reader. */
  readonly keepsLines: boolean;
  /** Of the request: held from the start if the job keeps its lines, else while it is read. */
  readonly bytes: number;
  /** Called whenever the job holds more bytes of its request, or fewer. */
  readonly onRequestBytes: (change: number) => void;
  /** Called whenever the job holds more bytes of lines, or fewer. */
  readonly onBytes: (change: number) => void;
  /** Throws when the server holds too many bytes. */
  readonly assertRoom: () => void;
  readonly onFailure: (error: unknown) => void;
}

/** Restarts of an episode that failed retryably, as in vf-eval. */
const MAX_REPLAYS = 3;

export class RolloutJob {
  isDone = false;
  lastUsedAt = performance.now();
  /** Lines of JSON in the order in which the rollouts ended; the last one is the end. A line that is no longer held is empty. */
  readonly #lines: string[] = [];
  #isDropped = false;
  #isRequestHeld = false;
  readonly #options: RolloutJobOptions;
  /** Rollouts on a line already. */
  readonly #finished = new Set<string>();
  #failed = 0;
  #stop: AbortController | null = null;
  #running: Promise<void> = Promise.resolve();
  #readers = 0;
  #news = Promise.withResolvers<void>();

  constructor(options: RolloutJobOptions) {
    this.#options = options;
    if (options.keepsLines) this.#holdRequest();
  }

  get address(): PolicyAddress {
    return this.#options.address;
  }

  get keepsLines(): boolean {
    return this.#options.keepsLines;
  }

  get hasReaders(): boolean {
    return this.#readers > 0;
  }

  /** All lines, those that exist first. Plays while there is a reader; when the last reader leaves before the end, the rollouts in flight are cancelled. */
  async *read(signal: AbortSignal): AsyncGenerator<string, void> {
    this.#readers += 1;
    this.#holdRequest();
    try {
      this.#start();
      for (let next = 0; ;) {
        this.lastUsedAt = performance.now();
        const news = this.#news.promise;
        for (; next < this.#lines.length; next++) {
          const line = this.#lines[next]!;
          if (!this.#options.keepsLines) this.#forget(next);
          yield line;
        }
        if (this.isDone || signal.aborted) return;
        await untilAborted(news, signal).catch(() => {});
      }
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0 && !this.isDone) this.stop(new CancelledError('Nobody reads the rollouts any more'));
    }
  }

  stop(reason: CancelledError): void {
    this.#stop?.abort(reason);
  }

  /** Frees the lines. Nobody can read the job any more. */
  drop(): void {
    this.#isDropped = true;
    if (this.#isRequestHeld) this.#options.onRequestBytes(-this.#options.bytes);
    this.#isRequestHeld = false;
    for (const place of this.#lines.keys()) this.#forget(place);
  }

  /** Resolves once nothing is played. */
  async idle(): Promise<void> {
    await this.#running;
  }

  #start(): void {
    if (this.isDone || (this.#stop !== null && !this.#stop.signal.aborted)) return;
    const stop = new AbortController();
    this.#stop = stop;
    // The rollouts that a cancelled play leaves behind end first.
    this.#running = this.#running.then(() => this.#run(stop));
  }

  /** Never rejects. */
  async #run(stop: AbortController): Promise<void> {
    const { policies, address, onFailure } = this.#options;
    try {
      await policies.use(address, stop.signal, (policy) => this.#play(policy, stop));
      this.#end();
    } catch (error) {
      const ended = stop.signal.reason as unknown;
      if (error instanceof CancelledError && stop.signal.aborted && !(ended instanceof EndedRun)) return;
      const reason = ended instanceof EndedRun ? ended.failure : error;
      if (!(reason instanceof VfError)) onFailure(error);
      this.#lose(reason);
      this.#end();
    }
  }

  /** Every rollout that is still missing failed for the same reason. */
  #lose(reason: unknown): void {
    const { address, served, sampling, maxTokens } = this.#options;
    const policy = { model: address.model ?? 'unknown', version: address.version };
    const kind = address.kind === 'chat' ? 'chat' : 'tokens';
    for (const { row, indices } of this.#missing()) {
      for (const index of indices) {
        const common = { policy, kind, sampling: samplingColumns({ ...sampling, maxTokens }), reason, redact: served.redact } as const;
        // A server that holds too much must not hold as many prompts.
        this.#add(lostRollout({ row, index, ...common, ...(reason instanceof ResultsError ? { withPrompt: false } : {}) }));
      }
    }
  }

  async #play({ client, models }: ServedPolicy, stop: AbortController): Promise<void> {
    const { served, sampling, maxTokens, maxConcurrent, slots, withMessages } = this.#options;
    const record = {
      capabilities: client.capabilities,
      sampling: samplingColumns({ ...sampling, maxTokens }),
      redact: served.redact,
      ...(withMessages ? { withMessages } : {}),
    };
    const groups = served.play(this.#missing(), {
      client,
      models,
      sampling,
      maxTokens,
      maxConcurrent,
      slots,
      maxReplays: MAX_REPLAYS,
      signal: stop.signal,
    });
    for await (const { rollouts } of groups) {
      // A group that a cancelled play left incomplete is played again as a whole.
      if (served.scoresGroups && rollouts.length < this.#options.rolloutsPerExample) continue;
      for (const rollout of rollouts) {
        const ending = endingRun(rollout);
        if (ending !== null) stop.abort(ending);
        this.#options.assertRoom();
        this.#add(servedRollout(rollout, record));
      }
    }
  }

  /** Groups of the rollouts without a line; single rollouts if members are scored alone, so that each is on a line as soon as it ends. */
  *#missing(): Generator<RolloutGroup<Row>, void> {
    const { rows, rolloutsPerExample, served } = this.#options;
    const indices = Array.from({ length: rolloutsPerExample }, (_, i) => i);
    for (const row of rows) {
      const missing = indices.filter((index) => !this.#finished.has(`${row.exampleId}/${index}`));
      if (missing.length === 0) continue;
      if (served.scoresGroups) yield { row, indices: missing };
      else for (const index of missing) yield { row, indices: [index] };
    }
  }

  #add(rollout: ServedRollout): void {
    const line = servedLine(rollout);
    this.#finished.add(rollout.rollout_id);
    if (rollout.error !== null) this.#failed += 1;
    this.#push(line);
  }

  #end(): void {
    const end: RolloutsEnd = { done: true, finished: this.#finished.size - this.#failed, failed: this.#failed };
    this.isDone = true;
    this.#push(JSON.stringify(end));
  }

  #push(line: string): void {
    this.#lines.push(this.#isDropped ? '' : line);
    if (!this.#isDropped) this.#hold(2 * line.length);
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers();
    resolve();
  }

  #forget(place: number): void {
    this.#hold(-2 * this.#lines[place]!.length);
    this.#lines[place] = '';
  }

  #holdRequest(): void {
    if (this.#isRequestHeld || this.#isDropped) return;
    this.#isRequestHeld = true;
    this.#options.onRequestBytes(this.#options.bytes);
  }

  #hold(change: number): void {
    this.#options.onBytes(change);
  }
}

/** No further rollout can succeed. */
class EndedRun extends CancelledError {
  readonly failure: VfError;

  constructor(failure: VfError) {
    super(failure.message);
    this.failure = failure;
  }
}

function endingRun({ error }: Rollout): EndedRun | null {
  if (error?.endsRun !== true) return null;
  return new EndedRun(error.source === 'policy' ? new PolicyError(error.message) : new EnvironmentError(error.message));
}
