/**
 * Publishes adapters into running servers that speak vLLM's LoRA routes: check the files, load them on every replica under a name that was never
 * used, compare log-probs, switch. Any failure leaves the old version serving. Unique names are a matter of correctness: a server may keep prefix
 * caches by name.
 */
import type { PolicyCapabilities, PolicyRef } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, ConfigError, describeError, PublishError, VfError } from '../../core/errors.ts';
import type { Random } from '../../core/random.ts';
import type { AdapterDescription } from '../gradients/gradient-backend.ts';
import { checkAdapter } from './check-adapter.ts';
import { type LoadedAdapter, LoadedAdapters, serverPath } from './loaded-adapters.ts';
import { difference, isBaseNeeded, type Judgement, type LogProbDifference, nats, probeFault, probeHint, servedLogProbs } from './log-prob-probe.ts';
import { LoraReplica, ModelGoneError, NumericServerError, rankError } from './lora-routes.ts';
import type { LogProbProbe, PublishRequest, PublishResult, WeightPublisher } from './weight-publisher.ts';

export interface LoraServerOptions {
  /** One per replica, with or without `/v1`. */
  readonly baseUrls: readonly string[];
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The base model as the server calls it. */
  readonly baseModel: string;
  readonly versions: PolicyVersions;
  /** What every adapter must be. */
  readonly adapter: AdapterDescription;
  /** Unique to this start of the process: versions are called `<runName>-v000012`, and `<runName>-v000012-2` when the same one comes again. */
  readonly runName: string;
  /** Local. What lies under it is the run's own and deleted once it is retired; other directories are never deleted. */
  readonly adaptersDirectory: string;
  /** Where the servers see `adaptersDirectory`; null where that is the same path. */
  readonly serverAdaptersDirectory: string | null;
  /** Of loading on one replica, and of any other request. */
  readonly loadTimeoutMs: number;
  /** Attempts beyond the first, where a failure may pass. @default 3 */
  readonly maxRetries?: number;
  /** How the server gives log-probs, as the policy's own probe found out. */
  readonly logProbsMode: PolicyCapabilities['logProbsMode'];
  /** Draws the jitter between attempts. */
  readonly random: Random;
}

/** What one replica took, in seconds, and what the probe found. */
interface ReplicaReport extends LogProbDifference {
  readonly loadSeconds: number;
  readonly probeSeconds: number;
}

/** Undoing must end even where the caller has gone. */
const UNDO_MS = 15_000;

export class LoraServerPublisher implements WeightPublisher {
  readonly #options: LoraServerOptions;
  readonly #replicas: readonly LoraReplica[];
  readonly #adapters: LoadedAdapters;
  readonly #judgement: Judgement;
  /** How often each version was tried. */
  readonly #tries = new Map<number, number>();

  /** Throws ConfigError for options that no server could serve. */
  constructor(options: LoraServerOptions) {
    const { baseUrls, logProbsMode, runName, loadTimeoutMs, maxRetries = 3, versions, adaptersDirectory, random, apiKey, headers } = options;
    if (baseUrls.length === 0) throw new ConfigError('Expected at least one base URL to publish to, got none');
    if (logProbsMode === 'none')
      throw new ConfigError('Expected a server that gives log-probs, got one without: what it serves could not be verified');
    // It becomes part of a model's name, which some servers use as a path.
    if (!/^[\w][\w.-]{0,99}$/.test(runName))
      throw new ConfigError(`Expected a run name of letters, digits, dots and dashes, got ${JSON.stringify(runName)}`);
    this.#options = options;
    this.#judgement = logProbsMode === 'processed' ? 'prompt' : 'forced';
    this.#adapters = new LoadedAdapters(versions, adaptersDirectory);
    const credentials = { ...(apiKey === undefined ? {} : { apiKey }), ...(headers === undefined ? {} : { headers }) };
    this.#replicas = baseUrls.map(
      (baseUrl, i) => new LoraReplica({ baseUrl, ...credentials, maxRetries, timeoutMs: loadTimeoutMs, random: random.fork(`replica ${i}`) }),
    );
  }

  /** Unloads and deletions that failed so far; each is tried again at the next `retire`. */
  get cleanUpFailures(): number {
    return this.#adapters.failures;
  }

  async publish(request: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { versions } = this.#options;
    const { version, manifest } = request;
    const ref = this.#mint(version);
    try {
      const startMs = performance.now();
      this.#checkRequest(request);
      const adapter = this.#adapters.add(version, ref.model, manifest.directory);
      await checkAdapter(manifest, this.#options.adapter, signal);
      const checkSeconds = secondsSince(startMs);
      const reports = await this.#bringEverywhere(adapter, ref, request.probe, signal);
      versions.advance(ref);
      const worst = (of: (report: ReplicaReport) => number) => Math.max(...reports.map(of));
      const report = {
        checkSeconds,
        loadSeconds: worst((r) => r.loadSeconds),
        probeSeconds: worst((r) => r.probeSeconds),
        probeMeanDifference: worst((r) => r.mean),
        probeMaxDifference: worst((r) => r.max),
      };
      return { ok: true, ref, report };
    } catch (error) {
      if (signal.aborted) throw new CancelledError(`Stopped while version ${version} was published`, { cause: signal.reason });
      return { ok: false, kept: versions.current(), reason: this.#failure(version, error) };
    }
  }

  async clear(signal: AbortSignal): Promise<void> {
    await this.#adapters.clear(this.#replicas, this.#options.serverAdaptersDirectory, signal);
  }

  async retire(olderThan: number, signal: AbortSignal): Promise<void> {
    await this.#adapters.retire(olderThan, signal);
  }

  async close(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  /** A name is spent even where nothing comes of it. */
  #mint(version: number): PolicyRef {
    const tries = (this.#tries.get(version) ?? 0) + 1;
    this.#tries.set(version, tries);
    const model = `${this.#options.runName}-v${String(version).padStart(6, '0')}${tries === 1 ? '' : `-${tries}`}`;
    return { version, model, cacheSalt: model };
  }

  #checkRequest({ version, manifest, probe }: PublishRequest): void {
    const { version: current } = this.#options.versions.current();
    if (!Number.isSafeInteger(version) || version < current) throw new PublishError(`Expected a version from ${current} up, got ${version}`);
    const fault = probeFault(probe);
    if (fault !== null) throw new PublishError(`${fault}; the served version could not be verified`);
    // Before anything is sent, for it is the caller's mistake.
    serverPath(this.#adapters, manifest.directory, this.#options.serverAdaptersDirectory);
  }

  /** All replicas or none: where one fails, the others unload again. */
  async #bringEverywhere(adapter: LoadedAdapter, ref: PolicyRef, probe: LogProbProbe, signal: AbortSignal): Promise<ReplicaReport[]> {
    const outcomes = await Promise.allSettled(this.#replicas.map((replica) => this.#bring(replica, adapter, ref, probe, signal)));
    const failed = outcomes.flatMap((outcome, i) =>
      outcome.status === 'rejected' ? [{ replica: this.#replicas[i]!, error: outcome.reason as unknown }] : [],
    );
    const isLate = ref.version < this.#options.versions.current().version;
    if (failed.length === 0 && !isLate) return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<ReplicaReport>).value);
    const undo = AbortSignal.timeout(UNDO_MS);
    await this.#adapters.takeBack(adapter, undo);
    const [first] = failed;
    if (first === undefined) throw new PublishError(`Expected version ${ref.version} to be the newest, got a newer one meanwhile`);
    const poisoned = await Promise.all(
      failed.filter(({ error }) => error instanceof NumericServerError).map(({ replica }) => this.#heal(replica, probe, undo)),
    );
    const where =
      failed.length === this.#replicas.length ? '' : ` (${failed.length} of ${this.#replicas.length} replicas; the others have unloaded it)`;
    const { message, retryable, status } = asVfError(first.error);
    throw new PublishError([`at ${first.replica.url}${where}: ${message}`, ...poisoned].join('; '), {
      cause: first.error,
      retryable,
      ...(status === null ? {} : { status }),
    });
  }

  /** Load, look at the card, compare log-probs. */
  async #bring(
    replica: LoraReplica,
    adapter: LoadedAdapter,
    { model, cacheSalt }: PolicyRef,
    probe: LogProbProbe,
    signal: AbortSignal,
  ): Promise<ReplicaReport> {
    const { adapter: about, serverAdaptersDirectory } = this.#options;
    const path = serverPath(this.#adapters, adapter.directory, serverAdaptersDirectory);
    const limit = await replica.maxRank(signal);
    if (limit !== null && limit < about.rank) throw rankError(about.rank, limit, `the limit of ${replica.url}`);
    const loadMs = performance.now();
    adapter.replicas.set(replica, 'asked');
    try {
      await replica.load(model, path, signal);
    } catch (error) {
      // An answer with a status is a plain no.
      if (error instanceof PublishError && error.status !== null) adapter.replicas.delete(replica);
      throw error;
    }
    adapter.replicas.set(replica, 'loaded');
    const loadSeconds = secondsSince(loadMs);
    const probeMs = performance.now();
    try {
      await this.#checkCard(replica, model, path, signal);
      const found = await this.#compare(replica, { model, cacheSalt: cacheSalt! }, probe, signal);
      return { ...found, loadSeconds, probeSeconds: secondsSince(probeMs) };
    } catch (error) {
      if (!(error instanceof ModelGoneError)) throw error;
      throw new PublishError(
        `Expected the server to keep ${model}, which it had just loaded, got it gone; the server was probably restarted: publish again (${error.message})`,
        { cause: error, retryable: true, status: 404 },
      );
    }
  }

  async #checkCard(replica: LoraReplica, model: string, path: string, signal: AbortSignal): Promise<void> {
    const { baseModel } = this.#options;
    const card = await replica.card(model, signal);
    if (card === null) throw new ModelGoneError(`Expected ${model} among the models of ${replica.url}, got no such name`);
    if (card.root !== path) throw new PublishError(`Expected ${model} to be loaded from ${path}, got ${card.root}`);
    const parent = card.parent ?? baseModel;
    if (parent === baseModel) return;
    // A server may have several names for one base; a card without a parent is such a name.
    const base = await replica.card(baseModel, signal);
    if (base === null || (base.parent ?? null) !== null)
      throw new PublishError(`Expected ${model} to stand on ${baseModel}, got ${parent}: the replica serves another base`);
  }

  async #compare(
    replica: LoraReplica,
    served: { readonly model: string; readonly cacheSalt: string },
    probe: LogProbProbe,
    signal: AbortSignal,
  ): Promise<LogProbDifference> {
    const { chosen, logProbs } = await servedLogProbs(replica, probe, { ...served, judgement: this.#judgement, signal });
    const trained = chosen.map((i) => probe.logProbs[i]!);
    const found = difference(logProbs, trained);
    const { baseModel } = this.#options;
    const askBase = () => servedLogProbs(replica, probe, { model: baseModel, judgement: this.#judgement, signal });
    if (found.mean <= probe.tolerance) {
      if (!isBaseNeeded(probe, chosen) || difference(logProbs, (await askBase()).logProbs).max > 0) return found;
      throw new PublishError(
        `Expected log-probs of ${served.model} that differ from those of ${baseModel}, got the same ${chosen.length} to the last digit: the adapter is not applied`,
      );
    }
    const hint = await askBase().then(
      (base) => probeHint(logProbs, trained, base.logProbs, probe.tolerance),
      (error: unknown) => `and the base model ${baseModel} could not be asked (${describeError(error)})`,
    );
    throw new PublishError(
      `Expected log-probs of ${served.model} within ${nats(probe.tolerance)} of the trainer's, got a mean difference of ${nats(found.mean)} and a largest of ${nats(found.max)} over ${chosen.length} tokens; ${hint}`,
    );
  }

  /** A NaN stays in the server's KV cache and spoils other models: forget it, and see whether that helped. */
  async #heal(replica: LoraReplica, probe: LogProbProbe, signal: AbortSignal): Promise<string> {
    const reset = await replica.resetPrefixCache(signal).catch(() => false);
    const done =
      reset === true
        ? 'its prefix cache was reset'
        : reset === null
          ? 'it has no route to reset its prefix cache'
          : 'its prefix cache could not be reset';
    const first = { ...probe, targets: probe.targets.subarray(-1) };
    const isWell = await servedLogProbs(replica, first, { model: this.#options.baseModel, judgement: this.#judgement, signal }).then(
      () => true,
      () => false,
    );
    return `${done}, and the base model ${isWell ? 'answers well again' : 'still fails: restart that server'}`;
  }

  #failure(version: number, error: unknown): PublishError {
    const { version: kept, model } = this.#options.versions.current();
    const { message, retryable, status } = asVfError(error);
    return new PublishError(`Version ${version} is not published: ${message}. Version ${kept} (${model}) goes on serving`, {
      cause: error,
      retryable,
      ...(status === null ? {} : { status }),
    });
  }
}

function asVfError(error: unknown): VfError {
  return error instanceof VfError ? error : new PublishError(`got ${describeError(error)}`, { cause: error });
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}
