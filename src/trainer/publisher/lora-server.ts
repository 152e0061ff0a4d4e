/**
 * Publishes adapters to running servers with vLLM's LoRA routes: checks the files, loads them on every replica that does not rest under a name that was
 * never used, compares log-probs, then switches. Replicas that fail rest until they have caught up; if too few succeed, the old version continues to
 * serve. Names must be unique for correctness: a server may key prefix caches by name.
 */
import type { PolicyCapabilities, PolicyRef } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, ConfigError, PublishError } from '../../core/errors.ts';
import type { ImageStore } from '../../core/message.ts';
import type { Random } from '../../core/random.ts';
import type { AdapterDescription } from '../gradient-backend.ts';
import { AdapterLoader, type LoadReport, secondsSince, type ServedAdapter } from './adapter-loader.ts';
import { assertSameBase, type BaseCheck } from './base-check.ts';
import { checkAdapter } from './check-adapter.ts';
import { InFlightSwitch } from './in-flight-switch.ts';
import { type LoadedAdapter, LoadedAdapters, serverPath } from './loaded-adapters.ts';
import { type Judgement, probeFault } from './log-prob-probe.ts';
import { asVfError, isUnreachable, publishFailure, QuorumError, type ReplicaFailure, tooFewReplicas } from './publish-failure.ts';
import { NumericServerError } from './lora-refusals.ts';
import { LoraReplica } from './lora-routes.ts';
import { withdrawAdapters } from './withdraw-adapters.ts';
import type { CatchUpResult, LogProbProbe, PublishRequest, PublishResult, RehearsalResult, WeightPublisher } from '../weight-publisher.ts';

export interface LoraServerOptions {
  /** One per replica, with or without `/v1`. */
  readonly baseUrls: readonly string[];
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The server's name of the base model. */
  readonly baseModel: string;
  readonly versions: PolicyVersions;
  /** The description that every adapter must match. */
  readonly adapter: AdapterDescription;
  /** Local. The run owns everything under it and deletes it once retired; other directories are never deleted. */
  readonly adaptersDirectory: string;
  /** The servers' path of `adaptersDirectory`; null if it is the same. */
  readonly serverAdaptersDirectory: string | null;
  /** Deadline of loading on one replica, and of any other request. */
  readonly loadTimeoutMs: number;
  /** Number of replicas that must have a version before it is sampled from. @default 1 */
  readonly quorum?: number;
  /** The time that replicas may take to load a version once a quorum has it; then they rest. @default 30000 */
  readonly stragglerMs?: number;
  /** Retries after transient failures. @default 3 */
  readonly maxRetries?: number;
  /** The way the server computes log-probs, as found by the policy's probe. */
  readonly logProbsMode: PolicyCapabilities['logProbsMode'];
  /** Draws the jitter between attempts. */
  readonly random: Random;
  /** The images that probes show. @default none */
  readonly images?: ImageStore;
}

/** The version that serves, for replicas that come back. */
interface Serving {
  readonly served: ServedAdapter;
  readonly adapter: LoadedAdapter;
}

/** Undoing gets its own deadline, because the caller's signal may already have aborted. */
const UNDO_MS = 15_000;
const STRAGGLER_MS = 30_000;

export class LoraServerPublisher implements WeightPublisher {
  readonly #options: LoraServerOptions;
  readonly #replicas: readonly LoraReplica[];
  readonly #adapters: LoadedAdapters;
  readonly #judgement: Judgement;
  readonly #loader: AdapterLoader;
  /** Null unless generations go on under new weights. */
  readonly #inFlight: InFlightSwitch | null;
  /** Null while the base serves. */
  #serving: Serving | null = null;

  /** Throws ConfigError for options that no server could serve. */
  constructor(options: LoraServerOptions) {
    const { baseUrls, logProbsMode, loadTimeoutMs, maxRetries = 3, versions, adaptersDirectory, random, apiKey, headers, images } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one server.');
    if (logProbsMode === 'none')
      throw new ConfigError('The policy server returns no log-probs, so published weights cannot be verified. Use a server that returns them.');
    this.#options = options;
    this.#judgement = logProbsMode === 'processed' ? 'prompt' : 'forced';
    this.#adapters = new LoadedAdapters(versions, adaptersDirectory, options.baseModel);
    const switched = { versions, adapters: this.#adapters, serverDirectory: options.serverAdaptersDirectory, timeoutMs: loadTimeoutMs };
    this.#inFlight = versions.isInFlight ? new InFlightSwitch(switched) : null;
    this.#loader = new AdapterLoader({ baseModel: options.baseModel, adapter: options.adapter, judgement: this.#judgement });
    const given = {
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(headers === undefined ? {} : { headers }),
      ...(images === undefined ? {} : { images }),
    };
    this.#replicas = baseUrls.map(
      (baseUrl, i) => new LoraReplica({ baseUrl, ...given, maxRetries, timeoutMs: loadTimeoutMs, random: random.fork(`replica ${i}`) }),
    );
  }

  /** Failed unloads and deletions so far; each is retried at the next `retire`. */
  get cleanUpFailures(): number {
    return this.#adapters.failures;
  }

  async publish(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { versions } = this.#options;
    const { version, name, manifest } = request;
    const ref: PolicyRef = { version, model: name, cacheSalt: name };
    try {
      const startMs = performance.now();
      this.#checkRequest(request);
      const adapter = this.#adapters.add(version, ref.model, manifest.directory);
      await checkAdapter(manifest, this.#options.adapter, signal);
      const checkSeconds = secondsSince(startMs);
      const path = serverPath(this.#adapters, manifest.directory, this.#options.serverAdaptersDirectory);
      const serving = { served: { model: ref.model, path, probes: probesOf(request) }, adapter };
      const reports = await this.#bringToQuorum(serving, ref, signal);
      this.#serving = serving;
      const worst = (of: (report: LoadReport) => number) => Math.max(...reports.map(of));
      const report = {
        checkSeconds,
        loadSeconds: worst((r) => r.loadSeconds),
        probeSeconds: worst((r) => r.probeSeconds),
        probeMeanDifference: worst((r) => r.mean),
        probeMaxDifference: worst((r) => r.max),
      };
      return { ok: true, ref, report };
    } catch (error) {
      if (signal.aborted) throw new CancelledError(`Stopped while publishing version ${version}`, { cause: signal.reason });
      const refused = error instanceof QuorumError ? error.refused : [];
      return { ok: false, kept: versions.current(), reason: publishFailure(version, error, versions.current()), refused };
    }
  }

  async rehearse(request: PublishRequest, others: readonly string[], signal: AbortSignal): Promise<RehearsalResult> {
    const { version, name, manifest } = request;
    const adapters = [name, ...others].map((each) => this.#adapters.add(version, each, manifest.directory));
    try {
      this.#checkRequest(request);
      await checkAdapter(manifest, this.#options.adapter, signal);
      const path = serverPath(this.#adapters, manifest.directory, this.#options.serverAdaptersDirectory);
      for (const adapter of adapters) {
        const probes = adapter.name === name ? probesOf(request) : [];
        const serving = { served: { model: adapter.name, path, probes }, adapter };
        const { reports, failed } = await this.#bringToAwake(serving, signal);
        if (failed.length > 0) return await this.#refusals(failed, reports.size, serving);
      }
      return { reason: null, refused: [] };
    } catch (error) {
      if (!signal.aborted) return { reason: asVfError(error), refused: [] };
      throw new CancelledError('Stopped while the first publish was rehearsed', { cause: signal.reason });
    } finally {
      const undo = AbortSignal.timeout(UNDO_MS);
      for (const adapter of adapters) await this.#adapters.takeBack(adapter, undo);
    }
  }

  async catchUp(name: string, signal: AbortSignal): Promise<CatchUpResult> {
    const { versions, baseModel } = this.#options;
    const replica = this.#replicas.find(({ url }) => url === name);
    const current = versions.current();
    try {
      if (replica === undefined) throw new PublishError(`The run has no replica ${name}. Check policy.base_url`);
      await this.#adapters.settle(replica, signal);
      const isLoaded = this.#serving !== null && (await replica.card(current.model, signal)) === null;
      if (this.#serving !== null) await this.#bringBack(replica, this.#serving, signal);
      const models = (await replica.cards(signal)).map(({ id }) => id);
      if (!models.includes(current.model)) throw new PublishError(`${name} does not serve ${current.model} but ${models.join(', ') || 'nothing'}`);
      versions.replicas.admit(name, models);
      return { ok: true, isLoaded };
    } catch (error) {
      if (signal.aborted) throw new CancelledError(`Stopped while ${name} caught up`, { cause: signal.reason });
      const { message, retryable, status, endsRun } = asVfError(error);
      const what = current.model === baseModel ? baseModel : `version ${current.version} (${current.model})`;
      const options = { cause: error, retryable, endsRun, ...(status === null ? {} : { status }) };
      return { ok: false, reason: new PublishError(`${name} does not serve ${what} yet: ${message}`, options) };
    }
  }

  /** Throws ConfigError if the servers' base model clearly differs from the backend's. */
  checkBase(check: Pick<BaseCheck, 'backend' | 'ids' | 'tolerance'>, signal: AbortSignal): Promise<void> {
    return assertSameBase({ ...check, replicas: this.#replicas, baseModel: this.#options.baseModel, judgement: this.#judgement, signal });
  }

  async clear(signal: AbortSignal): Promise<void> {
    // A process that was killed during a switch leaves its server paused.
    for (const replica of this.#replicas) await this.#inFlight?.resume(replica);
    await this.#adapters.clear(this.#replicas, this.#options.serverAdaptersDirectory, signal);
  }

  async retire(olderThan: number, signal: AbortSignal): Promise<void> {
    await this.#adapters.retire(olderThan, signal);
  }

  /** For the end of a run: see `withdrawAdapters`. Takes 15 seconds at most. */
  withdraw({ keeps }: { readonly keeps: boolean }): Promise<readonly string[]> {
    const { versions, baseModel } = this.#options;
    const signal = AbortSignal.timeout(UNDO_MS);
    return withdrawAdapters({ adapters: this.#adapters, replicas: this.#replicas, versions, baseModel, keeps, signal });
  }

  async close(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  #checkRequest(request: PublishRequest): void {
    const { version, manifest } = request;
    const { version: current } = this.#options.versions.current();
    if (!Number.isSafeInteger(version) || version < current)
      throw new PublishError(`The version must be at least the current one, ${current}, got ${version}`);
    const fault = probesOf(request)
      .map(probeFault)
      .find((text) => text !== null);
    if (fault !== undefined) throw new PublishError(`${fault}. The served version cannot be verified without a valid probe`);
    // Checked before anything is sent: a wrong directory is the caller's mistake.
    serverPath(this.#adapters, manifest.directory, this.#options.serverAdaptersDirectory);
  }

  /** Loads and checks the adapter on every replica that does not rest, then switches to it if a quorum has it. */
  async #bringToQuorum(serving: Serving, ref: PolicyRef, signal: AbortSignal): Promise<LoadReport[]> {
    const { versions, quorum = 1 } = this.#options;
    const { reports, failed } = await this.#bringToAwake(serving, signal);
    const isLate = ref.version < versions.current().version;
    if (signal.aborted || isLate || reports.size < quorum) {
      const undo = AbortSignal.timeout(UNDO_MS);
      await this.#adapters.takeBack(serving.adapter, undo);
      if (signal.aborted) throw new CancelledError(`Stopped while loading version ${ref.version}`, { cause: signal.reason });
      if (isLate) throw new PublishError(`A newer version was published while version ${ref.version} was loading`);
      const healed = await this.#healAll(failed, serving, undo);
      for (const { replica, error } of failed) if (isUnreachable(error)) versions.replicas.rest(replica.url, error.message);
      throw tooFewReplicas(failed, { replicas: this.#replicas.length, loaded: reports.size, quorum, healed });
    }
    await this.#healAll(failed, serving, AbortSignal.timeout(UNDO_MS));
    for (const { replica } of failed) this.#adapters.owe(serving.adapter, replica);
    const having = [...reports.keys()];
    const urls = having.map(({ url }) => url);
    if (this.#inFlight === null) versions.advance(ref, urls);
    else await this.#inFlight.advance(having[0]!, ref, serving.adapter);
    for (const { replica, error } of failed) versions.replicas.rest(replica.url, `it did not take version ${ref.version}: ${error.message}`);
    return [...reports.values()];
  }

  /** A replica that is busy or does not answer may take the first version; one that does not find the folder has had time to. */
  async #refusals(failed: readonly ReplicaFailure[], loaded: number, serving: Serving): Promise<RehearsalResult> {
    const { quorum = 1 } = this.#options;
    const healed = serving.served.probes.length === 0 ? [] : await this.#healAll(failed, serving, AbortSignal.timeout(UNDO_MS));
    const judged = failed.map(({ replica, error }) => ({
      replica,
      error: error.status === 404 ? new PublishError(error.message, { cause: error, status: 404 }) : error,
    }));
    const reason = loaded >= quorum ? null : tooFewReplicas(judged, { replicas: this.#replicas.length, loaded, quorum, healed });
    const lasting = judged.filter(({ error }) => !error.retryable);
    const refused = lasting.map(({ replica, error }) => ({ replica: replica.url, message: error.message }));
    return { reason: reason?.retryable === true ? null : reason, refused };
  }

  /** All at once. When a quorum has the adapter, the others get a little longer, because one hanging server must not stop the run. */
  async #bringToAwake({ served, adapter }: Serving, signal: AbortSignal) {
    const { versions, quorum = 1, stragglerMs = STRAGGLER_MS } = this.#options;
    const awake = this.#replicas.filter(({ url }) => !versions.replicas.isResting(url));
    const reports = new Map<LoraReplica, LoadReport>();
    const failed: ReplicaFailure[] = [];
    const tooSlow = new AbortController();
    const late = new PublishError(`it took ${stragglerMs / 1000} s longer than the others`, { retryable: true });
    let timer: NodeJS.Timeout | undefined;
    const bring = async (replica: LoraReplica) => {
      try {
        reports.set(replica, await this.#loader.bring(replica, served, adapter.replicas, AbortSignal.any([signal, tooSlow.signal])));
        if (reports.size === quorum) timer = setTimeout(() => tooSlow.abort(late), stragglerMs);
      } catch (error) {
        failed.push({ replica, error: tooSlow.signal.aborted ? late : asVfError(error) });
      }
    };
    await Promise.all(awake.map(bring));
    clearTimeout(timer);
    return { reports, failed };
  }

  /** Undoes the effects of NaN at the failed replicas, and describes the outcome. */
  #healAll(failed: readonly ReplicaFailure[], { served }: Serving, signal: AbortSignal): Promise<string[]> {
    const poisoned = failed.filter(({ error }) => error instanceof NumericServerError);
    return Promise.all(poisoned.map(({ replica }) => this.#loader.heal(replica, served.probes[0]!, signal)));
  }

  /** Gives the version that serves to a replica that came back. */
  async #bringBack(replica: LoraReplica, serving: Serving, signal: AbortSignal): Promise<void> {
    try {
      await this.#loader.bring(replica, serving.served, serving.adapter.replicas, signal);
      await this.#inFlight?.label(replica, this.#options.versions.current(), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#adapters.owe(serving.adapter, replica);
      await this.#healAll([{ replica, error: asVfError(error) }], serving, AbortSignal.timeout(UNDO_MS));
      throw error;
    }
  }
}

function probesOf({ probe, pictured }: PublishRequest): readonly LogProbProbe[] {
  return pictured === undefined ? [probe] : [probe, pictured];
}
