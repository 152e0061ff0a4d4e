/**
 * Publishes adapters to running servers with vLLM's LoRA routes: checks the files, loads them on every replica under a name that was never used,
 * compares log-probs, then switches. Any failure leaves the old version serving. Names must be unique for correctness: a server may key prefix
 * caches by name.
 */
import type { PolicyCapabilities, PolicyRef } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, ConfigError, describeError, PublishError, VfError } from '../../core/errors.ts';
import type { Random } from '../../core/random.ts';
import type { AdapterDescription } from '../gradients/gradient-backend.ts';
import { assertSameBase, type BaseCheck, otherBase } from './base-check.ts';
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
  /** The server's name of the base model. */
  readonly baseModel: string;
  readonly versions: PolicyVersions;
  /** What every adapter must match. */
  readonly adapter: AdapterDescription;
  /** Unique to this start of the process: versions are named `<runName>-v000012`, or `<runName>-v000012-2` if published a second time. */
  readonly runName: string;
  /** Local. The run owns everything under it and deletes it once retired; other directories are never deleted. */
  readonly adaptersDirectory: string;
  /** The servers' path of `adaptersDirectory`; null if it is the same. */
  readonly serverAdaptersDirectory: string | null;
  /** Deadline of loading on one replica, and of any other request. */
  readonly loadTimeoutMs: number;
  /** Retries after transient failures. @default 3 */
  readonly maxRetries?: number;
  /** How the server computes log-probs, as found by the policy's probe. */
  readonly logProbsMode: PolicyCapabilities['logProbsMode'];
  /** Draws the jitter between attempts. */
  readonly random: Random;
}

/** One replica's times in seconds, and its probe's result. */
interface ReplicaReport extends LogProbDifference {
  readonly loadSeconds: number;
  readonly probeSeconds: number;
}

/** Undoing gets its own deadline, because the caller's signal may already have aborted. */
const UNDO_MS = 15_000;

export class LoraServerPublisher implements WeightPublisher {
  readonly #options: LoraServerOptions;
  readonly #replicas: readonly LoraReplica[];
  readonly #adapters: LoadedAdapters;
  readonly #judgement: Judgement;
  /** Number of publish attempts by version. */
  readonly #tries = new Map<number, number>();

  /** Throws ConfigError for options that no server could serve. */
  constructor(options: LoraServerOptions) {
    const { baseUrls, logProbsMode, runName, loadTimeoutMs, maxRetries = 3, versions, adaptersDirectory, random, apiKey, headers } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one server.');
    if (logProbsMode === 'none')
      throw new ConfigError('The policy server returns no log-probs, so published weights cannot be verified. Use a server that returns them.');
    // It becomes part of a model name, which some servers use as a path.
    if (!/^[\w][\w.-]{0,99}$/.test(runName))
      throw new ConfigError(`The run name may have up to 100 letters, digits, dots, dashes and underscores, got ${JSON.stringify(runName)}`);
    this.#options = options;
    this.#judgement = logProbsMode === 'processed' ? 'prompt' : 'forced';
    this.#adapters = new LoadedAdapters(versions, adaptersDirectory);
    const credentials = { ...(apiKey === undefined ? {} : { apiKey }), ...(headers === undefined ? {} : { headers }) };
    this.#replicas = baseUrls.map(
      (baseUrl, i) => new LoraReplica({ baseUrl, ...credentials, maxRetries, timeoutMs: loadTimeoutMs, random: random.fork(`replica ${i}`) }),
    );
  }

  /** Failed unloads and deletions so far; each is retried at the next `retire`. */
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
      if (signal.aborted) throw new CancelledError(`Stopped while publishing version ${version}`, { cause: signal.reason });
      return { ok: false, kept: versions.current(), reason: this.#failure(version, error) };
    }
  }

  /** Throws ConfigError if the servers' base model clearly differs from the backend's. */
  checkBase(check: Pick<BaseCheck, 'backend' | 'ids' | 'tolerance'>, signal: AbortSignal): Promise<void> {
    return assertSameBase({ ...check, replicas: this.#replicas, baseModel: this.#options.baseModel, judgement: this.#judgement, signal });
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

  /** A name counts as used even if its publish fails. */
  #mint(version: number): PolicyRef {
    const tries = (this.#tries.get(version) ?? 0) + 1;
    this.#tries.set(version, tries);
    const model = `${this.#options.runName}-v${String(version).padStart(6, '0')}${tries === 1 ? '' : `-${tries}`}`;
    return { version, model, cacheSalt: model };
  }

  #checkRequest({ version, manifest, probe }: PublishRequest): void {
    const { version: current } = this.#options.versions.current();
    if (!Number.isSafeInteger(version) || version < current)
      throw new PublishError(`The version must be at least the current one, ${current}, got ${version}`);
    const fault = probeFault(probe);
    if (fault !== null) throw new PublishError(`${fault}. The served version cannot be verified without a valid probe`);
    // Checked before anything is sent: a wrong directory is the caller's mistake.
    serverPath(this.#adapters, manifest.directory, this.#options.serverAdaptersDirectory);
  }

  /** All replicas or none: if one fails, the others unload the adapter. */
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
    if (first === undefined) throw new PublishError(`A newer version was published while version ${ref.version} was loading`);
    const poisoned = await Promise.all(
      failed.filter(({ error }) => error instanceof NumericServerError).map(({ replica }) => this.#heal(replica, probe, undo)),
    );
    const where =
      failed.length === this.#replicas.length ? '' : ` (${failed.length} of ${this.#replicas.length} replicas; the others have unloaded it)`;
    const { message, retryable, status, endsRun } = asVfError(first.error);
    throw new PublishError([`at ${first.replica.url}${where}: ${message}`, ...poisoned].join('; '), {
      cause: first.error,
      retryable,
      endsRun,
      ...(status === null ? {} : { status }),
    });
  }

  /** Loads, checks the model card, compares log-probs. */
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
      // An answer with a status is a definite refusal, so the adapter cannot appear later.
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
      throw new PublishError(`The server lost ${model} just after loading it and was probably restarted. Publish again (${error.message})`, {
        cause: error,
        retryable: true,
        status: 404,
      });
    }
  }

  async #checkCard(replica: LoraReplica, model: string, path: string, signal: AbortSignal): Promise<void> {
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
        `The adapter is not applied: ${served.model} and ${baseModel} have the same log-probs for all ${chosen.length} tokens, to the last digit`,
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
      `Log-probs of ${served.model} differ from the trainer's by ${nats(found.mean)} on average (tolerance ${nats(probe.tolerance)}) and by ${nats(found.max)} at most, over ${chosen.length} tokens; ${hint}`,
    );
  }

  /** A NaN stays in the server's KV cache and spoils other models. Resets the cache and checks whether that helped. */
  async #heal(replica: LoraReplica, probe: LogProbProbe, signal: AbortSignal): Promise<string> {
    const reset = await replica.resetPrefixCache(signal).catch(() => false);
    const done =
      reset === true
        ? 'its prefix cache was reset'
        : reset === null
          ? 'it has no route to reset its prefix cache'
          : 'its prefix cache could not be reset';
    const first = { ...probe, targets: probe.targets.subarray(-1) };
    const works = await servedLogProbs(replica, first, { model: this.#options.baseModel, judgement: this.#judgement, signal }).then(
      () => true,
      () => false,
    );
    return `${done}, and the base model ${works ? 'works again' : 'still fails: restart that server'}`;
  }

  #failure(version: number, error: unknown): PublishError {
    const { version: kept, model } = this.#options.versions.current();
    const { message, retryable, status, endsRun } = asVfError(error);
    return new PublishError(`Version ${version} was not published: ${message}. Version ${kept} (${model}) continues to serve`, {
      cause: error,
      retryable,
      endsRun,
      ...(status === null ? {} : { status }),
    });
  }
}

function asVfError(error: unknown): VfError {
  return error instanceof VfError ? error : new PublishError(describeError(error), { cause: error });
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}
