/**
 * A model in training at a service. Its requests carry contiguous numbers, and the service takes them in that order: a request is sent once the one before it
 * was accepted, but before that one's result is awaited.
 */
import { CallQueue } from '../../core/call-queue.ts';
import type { AdamOptions } from '../../core/adam-options.ts';
import { savedSchema, stepSchema } from '../../schemas/tinker/answers.ts';
import { passOutputSchema } from '../../schemas/tinker/passes.ts';
import type { HttpResponse } from '../../transport/http-endpoint.ts';
import { outputOf, passRequest } from '../wire/json-pass.ts';
import { decodeOutput, encodePass } from '../wire/protobuf-pass.ts';
import type { InputChunk, PassOutput, TrainingPass } from '../wire/training-pass.ts';
import { awaitResult, goneAt } from './await-result.ts';
import type { PassDialect } from './pass-dialect.ts';
import { isProtobuf, readAnswer, type ServiceRequest } from './service-connection.ts';
import type { ServiceSession } from './service-session.ts';
import { TinkerError } from './tinker-error.ts';

export interface ServiceModelParts {
  readonly session: ServiceSession;
  readonly dialect: PassDialect;
  readonly id: string;
  /** By the service's own word; null if it does not say. */
  readonly alpha: number | null;
  readonly baseModel: string | null;
}

export interface SavedWeights {
  readonly name: string;
  /** Seconds after which the service may delete it. @default it is kept */
  readonly ttlSeconds?: number;
  readonly signal: AbortSignal;
}

/** A request that the service has accepted; `result` waits for what it gives. */
export interface Submitted<T> {
  result(): Promise<T>;
}

export class ServiceModel {
  readonly id: string;
  readonly alpha: number | null;
  readonly baseModel: string | null;
  readonly #session: ServiceSession;
  readonly #dialect: PassDialect;
  readonly #queue = new CallQueue();
  /** Number of the next request. */
  #next = 1;
  /** Why no further request can be sent; null while one can. */
  #lost: TinkerError | null = null;

  constructor({ session, dialect, id, alpha, baseModel }: ServiceModelParts) {
    this.#session = session;
    this.#dialect = dialect;
    this.id = id;
    this.alpha = alpha;
    this.baseModel = baseModel;
  }

  /** Submits a pass. */
  async pass(asked: Omit<TrainingPass, 'modelId' | 'seqId'>, signal: AbortSignal): Promise<Submitted<PassOutput>> {
    const route = asked.isForwardOnly ? 'forward' : 'forward_backward';
    const read = (answer: HttpResponse) => (isProtobuf(answer) ? decodeOutput(answer.body) : outputOf(readAnswer(passOutputSchema, answer)));
    const submitted = await this.#submit(route, read, signal, (seqId) =>
      this.#dialect.send((wire, isTrial) => {
        const pass = { ...asked, modelId: this.id, seqId };
        const { route: to, body } = wire === 'json' ? passRequest(pass) : { route: 'forward_backward', body: encodePass(pass) };
        // While the dialect is unknown, a server error may be about it, and repeating it for minutes would hide that.
        return this.#session.connection.request({
          route: to,
          body,
          signal,
          ...(isTrial ? { mayRetry: ({ status }) => status === null || status === 429 || status === 503 } : {}),
        });
      }),
    );
    const tokens = asked.data.reduce((sum, { input }) => sum + lengthOf(input), 0);
    this.#session.connection.meter.add(asked.isForwardOnly ? { prefill: tokens } : { train: tokens });
    return submitted;
  }

  /** Submits an Adam step; its result has the service's metrics. */
  async step(
    { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm }: AdamOptions,
    signal: AbortSignal,
  ): Promise<Submitted<Readonly<Record<string, number>>>> {
    const adam = { learning_rate: learningRate, beta1, beta2, eps: epsilon, weight_decay: weightDecay, grad_clip_norm: maxGradNorm ?? 0 };
    return this.#submit(
      'optim_step',
      (answer) => readAnswer(stepSchema, answer).metrics ?? {},
      signal,
      (seqId) => this.#post('optim_step', { seq_id: seqId, adam_params: adam, type: 'optim_step' }, signal),
    );
  }

  /** Submits a copy of adapter and Adam state at the service; its result is the copy's `tinker://` path. */
  save({ name, ttlSeconds, signal }: SavedWeights): Promise<Submitted<string>> {
    return this.#save('save_weights', { path: name, ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }) }, signal);
  }

  /** Submits a copy of the adapter that can be sampled from; its result is its path. */
  saveForSampler({ name, ttlSeconds, signal }: SavedWeights): Promise<Submitted<string>> {
    return this.#save('save_weights_for_sampler', { path: name, ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }) }, signal);
  }

  async #save(route: string, fields: object, signal: AbortSignal): Promise<Submitted<string>> {
    return this.#submit(
      route,
      (answer) => readAnswer(savedSchema, answer).path,
      signal,
      (seqId) => this.#post(route, { seq_id: seqId, ...fields, type: route }, signal),
    );
  }

  /** Replaces adapter and Adam state by a copy that `save` made. */
  async load(path: string, signal: AbortSignal): Promise<void> {
    const body = (seqId: number) => ({ seq_id: seqId, path, optimizer: true, type: 'load_weights' });
    const submitted = await this.#submit(
      'load_weights',
      () => undefined,
      signal,
      (seqId) => this.#post('load_weights', body(seqId), signal),
    );
    await submitted.result();
  }

  #post(route: string, body: object, signal: AbortSignal): Promise<HttpResponse> {
    const request: ServiceRequest = { route, body: { model_id: this.id, ...body }, signal };
    return this.#session.connection.request(request);
  }

  /** Sends under the next number. A number that the service may have taken, without our knowing it, ends the model: a service waits at a gap without end. */
  async #submit<T>(
    route: string,
    read: (answer: HttpResponse) => T,
    signal: AbortSignal,
    send: (seqId: number) => Promise<HttpResponse>,
  ): Promise<Submitted<T>> {
    const { seqId, submitted } = await this.#queue.run(async () => {
      this.#session.assertAlive();
      if (this.#lost !== null) throw this.#lost;
      const number = this.#next;
      try {
        const answer = await send(number);
        this.#next++;
        return { seqId: number, submitted: answer };
      } catch (error) {
        throw this.#failure(route, error);
      }
    });
    const again = () => send(seqId);
    return { result: async () => read(await awaitResult(this.#session.connection, { route, submit: again, submitted, signal })) };
  }

  #failure(route: string, error: unknown): unknown {
    if (!(error instanceof TinkerError)) {
      this.#lost = new TinkerError(`${route} was cancelled before the service had accepted it, so the model's requests have a gap`, {
        cause: error,
        isGone: true,
      });
      return error;
    }
    const found = goneAt(error);
    const isRefused = error.status !== null && error.status >= 400 && error.status < 500;
    if (!isRefused || found.isGone)
      this.#lost = found.isGone
        ? found
        : new TinkerError(`${error.message}. The model cannot go on without this request`, { cause: error, isGone: true });
    return this.#lost ?? found;
  }
}

/** In tokens of text: nothing else is sent. */
function lengthOf(input: readonly InputChunk[]): number {
  return input.reduce((sum, chunk) => sum + (chunk.kind === 'text' ? chunk.tokens.length : 0), 0);
}
