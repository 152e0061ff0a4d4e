/** The runs of a server of the verifiers wire: begun, cancelled, and played a bounded number at a time. */
import { CancelledError, ConfigError, VfError } from '../../core/errors.ts';
import { Limiter } from '../../core/limiter.ts';
import { Recorder } from '../../rollouts/recorder.ts';
import type { ServedEnvironment } from '../environment/served-environment.ts';
import type { ServedPolicies } from '../environment/served-policies.ts';
import { episodeRecord, type EpisodeRecord, type RecordedRun } from './episode-record.ts';
import type { PlannedRun } from './planned-run.ts';
import { traceNodes } from './trace-nodes.ts';

export interface VerifiersRunsOptions {
  readonly served: ServedEnvironment;
  readonly policies: ServedPolicies;
  /** Runs that are played at once. */
  readonly maxSessions: number;
  /** Runs that wait for their turn. @default 10000 */
  readonly maxWaiting?: number;
  /** Memory of the requests of all runs. @default 512 MiB */
  readonly maxBytes?: number;
  /** Of this package. */
  readonly version: string;
}

/** Restarts of an episode that failed retryably, as in vf-eval. */
const MAX_REPLAYS = 3;

export class VerifiersRuns {
  readonly #options: VerifiersRunsOptions;
  readonly #slots: Limiter;
  /** By client, then by request id. */
  readonly #running = new Map<string, Map<string, AbortController>>();
  /** Number of runs of each row that have begun: the rollouts of a row get different random numbers. */
  readonly #begun = new Map<string, number>();
  #bytes = 0;

  constructor(options: VerifiersRunsOptions) {
    this.#options = options;
    this.#slots = new Limiter(options.maxSessions);
  }

  /**
   * Plays a run. It can be cancelled as soon as this has been called. Rejects with CancelledError if it was, with ConfigError if its policy cannot play
   * the environment, and with VfError if too many wait.
   * @param bytes memory of the request
   */
  async play(client: string, requestId: string, run: PlannedRun, bytes: number): Promise<EpisodeRecord> {
    const { maxSessions, maxWaiting = 10_000, maxBytes = 512 * 2 ** 20 } = this.#options;
    const runs = this.#running.get(client) ?? new Map<string, AbortController>();
    if (runs.has(requestId)) throw new ConfigError(`A run with the request id ${JSON.stringify(requestId)} is under way. Use a new id.`);
    if (this.#slots.waiting >= maxWaiting || this.#bytes + bytes > maxBytes) {
      throw new VfError(
        `${this.#slots.active} runs are being played (--max-sessions ${maxSessions}) and ${this.#slots.waiting} wait. Try again later.`,
      );
    }
    const stop = new AbortController();
    runs.set(requestId, stop);
    this.#running.set(client, runs);
    this.#bytes += bytes;
    try {
      return await this.#slots.run(() => this.#play(run, stop.signal), stop.signal);
    } finally {
      this.#bytes -= bytes;
      runs.delete(requestId);
      if (runs.size === 0) this.#running.delete(client);
    }
  }

  /** False if there is no such run: it has ended, or never was. */
  cancel(client: string, requestId: string): boolean {
    const stop = this.#running.get(client)?.get(requestId);
    stop?.abort(new CancelledError('The client cancelled the run'));
    return stop !== undefined;
  }

  /** Cancels all runs of a client, because they are no longer read. */
  cancelAllOf(client: string): void {
    for (const stop of this.#running.get(client)?.values() ?? []) stop.abort(new CancelledError('The client has gone'));
  }

  cancelAll(): void {
    for (const runs of this.#running.values()) for (const stop of runs.values()) stop.abort(new CancelledError('The server is stopping'));
  }

  async #play(run: PlannedRun, signal: AbortSignal): Promise<EpisodeRecord> {
    const { served, version } = this.#options;
    const rollout = await this.#rollout(run, signal);
    return episodeRecord(rollout, traceNodes(rollout), {
      environmentId: served.environment.id,
      weights: served.environment.rubric.weights,
      taskData: run.taskData,
      sampling: run.sampling,
      version,
      redact: served.redact,
    });
  }

  async #rollout({ row, address, sampling, maxTokens }: PlannedRun, signal: AbortSignal): Promise<RecordedRun> {
    const { served, policies } = this.#options;
    const id = String(row.exampleId);
    const index = this.#begun.get(id) ?? 0;
    this.#begun.set(id, index + 1);
    try {
      return await policies.use(address, signal, async ({ client, models }) => {
        const options = { client, models, sampling, maxTokens, maxReplays: MAX_REPLAYS, maxConcurrent: 1, signal };
        let played: RecordedRun | null = null;
        for await (const { rollouts } of served.play([{ row, indices: [index] }], options)) played = rollouts[0] ?? played;
        if (signal.aborted || played === null) throw new CancelledError('The run was cancelled', { cause: signal.reason });
        return played;
      });
    } catch (error) {
      // The client's request cannot be carried out. If only the policy is down, that is a rollout that failed.
      if (signal.aborted || error instanceof ConfigError || !(error instanceof VfError)) throw error;
      const record = new Recorder(row.prompt, served.environment.turnFormat, 'lease');
      record.fail(error, signal);
      const lost = record.finish({ model: address.model, version: address.version }, []);
      return { ...lost, rolloutId: `${id}/${index}`, row, reward: null, metrics: {} };
    }
  }
}
