/**
 * Trains at a service that speaks the Tinker API. Its losses are not used as such: log-probs come from a forward pass, their gradient from this package, and the service gets that gradient in
 * the form of a loss (pass-data.ts). A gradient is kept here until its step, because the API cannot clear one. Weights stay at the service; files hold references to them.
 */
import type { AdamOptions } from '../../../core/adam-options.ts';
import { cancelled, eitherSignal, throwIfAborted } from '../../../core/abort.ts';
import { CancelledError, GradientError, thrownText } from '../../../core/errors.ts';
import { onOneLine } from '../../../schemas/on-one-line.ts';
import type { SavedWeights, ServiceModel, Submitted } from '../../../tinker/service/service-model.ts';
import type { ServiceSession } from '../../../tinker/service/service-session.ts';
import { TinkerError } from '../../../tinker/service/tinker-error.ts';
import type { PassOutput } from '../../../tinker/wire/training-pass.ts';
import type {
  AdapterDescription,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
  RemoteAdapter,
} from '../../gradient-backend.ts';
import { gradNormOf, type Reduction } from './calibrate-reduction.ts';
import { forwardDatum, type GradedSequence, gradientLoss, logProbsOf, padded, type PassSequence, sequencesOf } from './pass-data.ts';
import { readReference, writeReference } from './reference-files.ts';
import { type SentPass, submitAll } from './submit-pass.ts';
import type { TinkerReference } from './tinker-reference.ts';

export interface TinkerBackendParts {
  /** Closed with the backend. */
  readonly session: ServiceSession;
  readonly model: ServiceModel;
  readonly reference: TinkerReference;
  readonly adapter: AdapterDescription;
  readonly reduction: Reduction;
  /** The number of sequences of a request is filled up to a multiple of this. */
  readonly padTo: number;
  /** For how long the service keeps what is saved; null: until it is deleted. */
  readonly ttlHours: number | null;
  /** Unique to this session; names of what it saves begin with it. */
  readonly name: string;
}

/** A copy that only this session needs may go once it surely has ended. */
const HELD_SECONDS = 24 * 3600;

export class TinkerBackend implements GradientBackend {
  readonly capabilities: BackendCapabilities;
  readonly adapter: AdapterDescription;
  readonly #parts: TinkerBackendParts;
  readonly #retained = new Map<string, readonly (PassSequence & { readonly logProbs: Float32Array })[]>();
  readonly #closed = new AbortController();
  #pending: GradedSequence[] = [];
  #batches = 0;
  #saves = 0;
  #steps = 0;
  /** The copy that `hold` asked for, and the steps it has. */
  #held: { readonly saved: Submitted<string>; readonly steps: number } | null = null;
  #lost: GradientError | null = null;

  constructor(parts: TinkerBackendParts) {
    const { session, model, reduction, adapter } = parts;
    this.#parts = parts;
    this.adapter = adapter;
    this.capabilities = {
      name: 'tinker',
      description: `Tinker API at ${session.connection.url}, model ${model.id} on ${adapter.baseModel}, losses by ${reduction}`,
      device: 'remote',
      dtype: 'unknown',
      entropyGradient: false,
      images: false,
      maxTokens: Infinity,
    };
  }

  async forward(batch: PackedBatch, { retain, adapter, entropy = false, signal }: ForwardOptions): Promise<ForwardResult> {
    throwIfAborted(signal, 'Forward pass at the training service was cancelled');
    assertPossible(batch, entropy);
    return this.#classified(async () => {
      using either = eitherSignal(signal, this.#closed.signal);
      // One without a target says nothing, and may be a single token, which no service takes.
      const sequences = sequencesOf(batch).filter(({ places }) => places.length > 0);
      const logProbs = await this.#logProbs(sequences, adapter, { hasOtherIds: batch.targetIds !== undefined, signal: either.signal });
      const flat = Float32Array.from(logProbs.flatMap((values) => [...values]));
      if (!flat.every(Number.isFinite))
        throw new GradientError('The training service returned log-probs that are not finite', { code: 'not_finite' });
      const batchId = `batch-${++this.#batches}`;
      if (retain)
        this.#retained.set(
          batchId,
          sequences.map((sequence, i) => ({ ...sequence, logProbs: logProbs[i]! })),
        );
      return { batchId, logProbs: flat };
    }, signal);
  }

  async #logProbs(
    sequences: readonly PassSequence[],
    adapter: ForwardOptions['adapter'],
    { hasOtherIds, signal }: { readonly hasOtherIds: boolean; readonly signal: AbortSignal },
  ): Promise<Float32Array[]> {
    const { model: trained, reference, padTo } = this.#parts;
    const model = adapter === 'on' ? trained : await reference.model(adapter, signal);
    if (model !== null) {
      const data = padded(sequences.map(forwardDatum), padTo);
      return logProbsOf(await this.#passed(model, { lossFn: 'cross_entropy', data, isForwardOnly: true }, signal), sequences);
    }
    if (hasOtherIds) throw badInput('The training service gives the base no log-probs of ids that a sequence does not have');
    return Promise.all(sequences.map((sequence) => reference.promptLogProbs(sequence, signal)));
  }

  async #passed(model: ServiceModel, pass: SentPass, signal: AbortSignal): Promise<PassOutput[]> {
    const submitted = await submitAll(model, pass, signal);
    return Promise.all(submitted.map((each) => each.result()));
  }

  async backward(batchId: string, { dLogProbs }: { readonly dLogProbs: Float32Array }): Promise<void> {
    const sequences = this.#retained.get(batchId);
    if (sequences === undefined)
      throw badInput(`Batch ${batchId} is not retained; it never was, or a backward, a drop, a step or a load has released it`);
    const count = sequences.reduce((sum, { places }) => sum + places.length, 0);
    if (dLogProbs.length !== count) throw badInput(`The gradient has ${dLogProbs.length} values for ${count} targets`);
    this.#retained.delete(batchId);
    let from = 0;
    for (const sequence of sequences) {
      const gradient = dLogProbs.slice(from, (from += sequence.places.length));
      this.#pending.push({ ...sequence, gradient });
    }
  }

  async drop(batchId: string): Promise<void> {
    if (!this.#retained.delete(batchId)) throw badInput(`Batch ${batchId} is not retained`);
  }

  async zeroGrad(): Promise<void> {
    this.#pending = [];
  }

  async optimStep(options: AdamOptions): Promise<OptimStepResult> {
    const { model, reduction, padTo } = this.#parts;
    const sequences = this.#pending;
    if (sequences.length === 0) throw badInput('There is no gradient to take a step on');
    this.#pending = [];
    this.#retained.clear();
    if (sequences.some(({ gradient }) => !gradient.every(Number.isFinite))) return { step: this.#steps, gradNorm: NaN, skipped: true };
    const { signal } = this.#closed;
    return this.#classified(async () => {
      const passes = await submitAll(model, { ...gradientLoss(sequences, { reduction, padTo }), isForwardOnly: false }, signal);
      // Sent before any of them is awaited, so that the service takes them in one of its cycles.
      const stepped = await model.step(options, signal);
      await Promise.all(passes.map((each) => each.result()));
      const gradNorm = gradNormOf(await stepped.result());
      return { step: ++this.#steps, gradNorm: gradNorm ?? NaN, skipped: false };
    });
  }

  /** The service copies the weights in the order of its requests, so that nothing waits for it here. */
  async hold(): Promise<void> {
    const saved = await this.#classified(() => this.#parts.model.save(this.#asked('held', HELD_SECONDS)));
    const before = this.#held;
    this.#held = { saved, steps: this.#steps };
    if (before !== null) void this.#delete(before.saved);
  }

  async restore(): Promise<void> {
    const held = this.#held;
    if (held === null) throw badInput('There is no state to return to; call hold first');
    await this.#classified(async () => this.#parts.model.load(await held.saved.result(), this.#closed.signal));
    this.#steps = held.steps;
    this.#held = null;
    this.#clear();
  }

  /** Frees the service's disk. Never rejects: a copy that cannot be deleted expires. */
  async #delete(saved: Submitted<string>): Promise<void> {
    const path = await saved.result().catch(() => null);
    if (path !== null) await this.#parts.session.connection.delete(path, this.#closed.signal).catch(() => {});
  }

  /** The API shows no weights: log-probs, which are checked in every pass, must tell. */
  async isFinite(): Promise<boolean> {
    return true;
  }

  /** Unknown, for the same reason. */
  async movement(): Promise<null> {
    return null;
  }

  async saveAdapter(directory: string): Promise<RemoteAdapter> {
    const { model, adapter } = this.#parts;
    const path = await this.#classified(async () => (await model.saveForSampler(this.#asked('v'))).result());
    await this.#write(directory, 'adapter', path);
    return { kind: 'remote', directory, reference: path, rank: adapter.rank, alpha: adapter.alpha };
  }

  async saveState(directory: string): Promise<void> {
    const path = await this.#classified(async () => (await this.#parts.model.save(this.#asked('state'))).result());
    await this.#write(directory, 'state', path);
  }

  async loadState(directory: string): Promise<void> {
    const { path, kind, base_model: base, rank, steps } = await readReference(directory);
    const { baseModel, rank: own } = this.adapter;
    if (kind !== 'state') throw badInput(`${directory} refers to an adapter that is sampled from, not to a state`);
    if (base !== baseModel || rank !== own)
      throw badInput(`The state in ${directory} is of ${base} with rank ${rank}, but this run has ${baseModel} with rank ${own}`);
    await this.#classified(() => this.#parts.model.load(path, this.#closed.signal)).catch((error: GradientError) => {
      if (error.code !== 'lost' || this.#parts.session.isLost) throw error;
      this.#lost = null;
      throw badInput(
        `The training service does not have the state ${path} any more: ${error.message}. It may have expired; resume from another checkpoint, or start again`,
        error,
      );
    });
    this.#steps = steps;
    this.#clear();
  }

  async close(): Promise<void> {
    this.#lost ??= new GradientError('The backend was closed', { code: 'lost' });
    this.#closed.abort(new CancelledError('The gradient backend was closed'));
    await this.#parts.session[Symbol.asyncDispose]();
  }

  #clear(): void {
    this.#pending = [];
    this.#retained.clear();
  }

  #asked(kind: string, ttlSeconds = this.#ttlSeconds): SavedWeights {
    // SkyRL takes letters, digits, dashes and underscores.
    const name = `${this.#parts.name}-${kind}${++this.#saves}`.replaceAll(/[^\w-]/g, '-');
    return { name, ...(ttlSeconds === undefined ? {} : { ttlSeconds }), signal: this.#closed.signal };
  }

  get #ttlSeconds(): number | undefined {
    const { ttlHours } = this.#parts;
    return ttlHours === null ? undefined : Math.ceil(ttlHours * 3600);
  }

  async #write(directory: string, kind: 'state' | 'adapter', path: string): Promise<void> {
    const { session, adapter } = this.#parts;
    const { baseModel, rank, alpha } = adapter;
    const seconds = this.#ttlSeconds;
    const now = Date.now();
    await writeReference(directory, {
      format: 'vf-search tinker 1',
      kind,
      path,
      service: session.connection.url,
      base_model: baseModel,
      rank,
      alpha,
      steps: this.#steps,
      saved_at: new Date(now).toISOString(),
      expires_at: seconds === undefined ? null : new Date(now + seconds * 1000).toISOString(),
    });
  }

  /** Rejects with GradientError, or with CancelledError when the caller's signal has aborted. */
  async #classified<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#lost !== null) throw this.#lost;
    try {
      return await call();
    } catch (error) {
      if (signal?.aborted === true) throw cancelled(signal, 'The call to the training service was cancelled');
      const failure = gradientFailure(error);
      if (failure.code === 'lost') this.#lost ??= failure;
      throw failure;
    }
  }
}

function assertPossible({ temperature, images = [] }: PackedBatch, entropy: boolean): void {
  if (temperature !== 1) throw badInput(`The Tinker API has log-probs at temperature 1 only, but the batch has temperature ${temperature}`);
  if (entropy) throw badInput('The Tinker API has no entropies');
  if (images.length > 0) throw badInput('This backend sends text only, but the batch holds images');
}

function gradientFailure(error: unknown): GradientError {
  if (error instanceof GradientError) return error;
  const message = onOneLine(thrownText(error));
  if (error instanceof CancelledError) return new GradientError(message, { code: 'lost', cause: error });
  if (!(error instanceof TinkerError)) return new GradientError(message, { code: 'internal', cause: error });
  const isRefused = error.status !== null && error.status >= 400 && error.status < 500;
  return new GradientError(message, { code: error.isGone ? 'lost' : isRefused ? 'bad_input' : 'internal', cause: error });
}

function badInput(message: string, cause?: unknown): GradientError {
  return new GradientError(message, { code: 'bad_input', cause });
}
