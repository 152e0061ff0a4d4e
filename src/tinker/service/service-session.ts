/** A session at a training service: keeps it alive, opens models and samplers in it. */
import { eitherSignal } from '../../core/abort.ts';
import { CLEAN_UP_MS } from '../../core/timers.ts';
import { createdModelSchema, futureSchema, modelInfoSchema, samplerSchema, sessionSchema } from '../../schemas/tinker/answers.ts';
import { sampleResponseSchema } from '../../schemas/tinker/samples.ts';
import { decodeSamples, type Samples, samplesOf } from '../wire/samples.ts';
import { awaitResult, goneAt } from './await-result.ts';
import type { PassDialect } from './pass-dialect.ts';
import { ServiceModel } from './service-model.ts';
import { isProtobuf, readAnswer, SDK_VERSION, type ServiceConnection } from './service-connection.ts';
import { TinkerError } from './tinker-error.ts';

const BEAT_MS = 10_000;

export interface ServiceSessionOptions {
  readonly connection: ServiceConnection;
  readonly dialect: PassDialect;
  /** The time between two signs of life, in milliseconds. @default 10000 */
  readonly beatMs?: number;
  readonly signal: AbortSignal;
}

/** The layers that an adapter covers. */
interface TrainedLayers {
  readonly attention: boolean;
  readonly mlp: boolean;
  readonly unembedding: boolean;
}

export interface NewModel {
  /** The service's name of the base. */
  readonly baseModel: string;
  readonly rank: number;
  readonly seed: number;
  readonly layers: TrainedLayers;
}

/** The weights that are sampled from: the base, or what a model saved under a `tinker://` path. */
export type SampledWeights = { readonly baseModel: string } | { readonly path: string };

export interface SampleAsked {
  readonly weights: SampledWeights;
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP?: number;
  readonly topK?: number;
  /** Ids or strings, which cannot be mixed. @default none */
  readonly stop?: readonly number[] | readonly string[];
  readonly seed?: number;
  /** Also returns the log-probs of the prompt's tokens. @default false */
  readonly hasPromptLogProbs?: boolean;
  readonly signal: AbortSignal;
}

interface Sampler {
  readonly id: string;
  requests: number;
}

export class ServiceSession implements AsyncDisposable {
  readonly id: string;
  readonly connection: ServiceConnection;
  readonly #dialect: PassDialect;
  readonly #ended = new AbortController();
  readonly #beating: NodeJS.Timeout;
  readonly #samplers = new Map<string, Promise<Sampler>>();
  readonly #models = new Set<ServiceModel>();
  #isBeating = false;
  #modelCount = 0;
  #samplerCount = 0;
  /** Why nothing can be asked of the session any more; null while it lives. */
  #lost: TinkerError | null = null;

  private constructor({ connection, dialect, beatMs = BEAT_MS }: ServiceSessionOptions, id: string) {
    this.connection = connection;
    this.#dialect = dialect;
    this.id = id;
    this.#beating = setInterval(() => void this.#beat(), beatMs);
    this.#beating.unref();
  }

  static async open(options: ServiceSessionOptions): Promise<ServiceSession> {
    const { connection, signal } = options;
    const body = { tags: [], user_metadata: {}, sdk_version: SDK_VERSION, type: 'create_session' };
    const answer = await connection.ask(sessionSchema, { route: 'create_session', body, signal });
    if (answer.error_message) throw new TinkerError(`${connection.url} opens no session: ${answer.error_message}`, { endsRun: true });
    for (const message of [answer.info_message, answer.warning_message]) if (message) connection.notice(`${connection.url}: ${message}`);
    return new ServiceSession(options, answer.session_id);
  }

  /** True if the service does not know the session any more. */
  get isLost(): boolean {
    return this.#lost !== null;
  }

  /** Throws the TinkerError with which the session was lost. */
  assertAlive(): void {
    if (this.#lost !== null) throw this.#lost;
  }

  /** A sign of life is worth no retry: the next one follows. */
  async #beat(): Promise<void> {
    if (this.#isBeating) return;
    this.#isBeating = true;
    try {
      await this.connection.request({
        route: 'session_heartbeat',
        body: { session_id: this.id, type: 'session_heartbeat' },
        timeoutMs: BEAT_MS,
        mayRetry: () => false,
        isUrgent: true,
        signal: this.#ended.signal,
      });
    } catch (error) {
      if (!(error instanceof TinkerError) || (error.status !== 404 && error.status !== 410)) return;
      this.#lost ??= new TinkerError(`The session ${this.id} at ${this.connection.url} is over. ${error.message}`, { cause: error, isGone: true });
      clearInterval(this.#beating);
    } finally {
      this.#isBeating = false;
    }
  }

  /** A fresh adapter on the base, with B = 0. */
  async createModel(asked: NewModel, signal: AbortSignal): Promise<ServiceModel> {
    this.assertAlive();
    const { connection } = this;
    const { baseModel, rank, seed, layers } = asked;
    const body = {
      session_id: this.id,
      model_seq_id: this.#modelCount++,
      base_model: baseModel,
      lora_config: { rank, seed, train_attn: layers.attention, train_mlp: layers.mlp, train_unembed: layers.unembedding },
      type: 'create_model',
    };
    const submit = () => this.#known(connection.request({ route: 'create_model', body, signal }));
    const result = await awaitResult(connection, { route: 'create_model', submit, signal });
    const { model_id: id, base_model: base, lora_config: lora } = readAnswer(createdModelSchema, result);
    const model = new ServiceModel({
      session: this,
      dialect: this.#dialect,
      id,
      alpha: lora?.alpha ?? null,
      baseModel: base ?? (await this.#baseOf(id, signal)),
    });
    this.#models.add(model);
    return model;
  }

  /** The base of a model by the service's own word; null if it does not say. */
  async #baseOf(modelId: string, signal: AbortSignal): Promise<string | null> {
    try {
      const info = await this.connection.ask(modelInfoSchema, { route: 'get_info', body: { model_id: modelId, type: 'get_info' }, signal });
      return info.model_data?.model_name ?? null;
    } catch (error) {
      // Some servers lack the route.
      if (error instanceof TinkerError && error.status === 404) return null;
      throw error;
    }
  }

  /** Samples one sequence. */
  async sample({
    weights,
    prompt,
    maxTokens,
    temperature,
    topP = 1,
    topK = -1,
    stop = [],
    seed,
    hasPromptLogProbs = false,
    signal,
  }: SampleAsked): Promise<Samples> {
    this.assertAlive();
    const { connection } = this;
    const sampler = await this.#samplerOf(weights, signal);
    const body = {
      sampling_session_id: sampler.id,
      seq_id: sampler.requests++,
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens: [...prompt] }] },
      sampling_params: { max_tokens: maxTokens, temperature, top_p: topP, top_k: topK, stop, ...(seed === undefined ? {} : { seed }) },
      ...(hasPromptLogProbs ? { prompt_logprobs: true } : {}),
      type: 'sample',
    };
    const submit = () => this.#known(connection.request({ route: 'asample', body, headers: { 'x-tinker-sampling-backpressure': '1' }, signal }));
    const result = await awaitResult(connection, { route: 'asample', submit, signal });
    const samples = isProtobuf(result)
      ? decodeSamples(result.body, prompt.length)
      : samplesOf(readAnswer(sampleResponseSchema, result), prompt.length);
    connection.meter.add({ prefill: prompt.length, sample: samples.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0) });
    return samples;
  }

  /** One sampling session per version of the weights. */
  #samplerOf(weights: SampledWeights, signal: AbortSignal): Promise<Sampler> {
    const name = 'path' in weights ? weights.path : weights.baseModel;
    const known = this.#samplers.get(name);
    if (known !== undefined) return known;
    const opened = this.#openSampler(weights, signal);
    this.#samplers.set(name, opened);
    opened.catch(() => this.#samplers.delete(name));
    return opened;
  }

  async #openSampler(weights: SampledWeights, caller: AbortSignal): Promise<Sampler> {
    const body = {
      session_id: this.id,
      sampling_session_seq_id: this.#samplerCount++,
      ...('path' in weights ? { model_path: weights.path } : { base_model: weights.baseModel }),
      type: 'create_sampling_session',
    };
    // Others wait for it too, so that one caller's end must not end it; the session's does.
    caller.throwIfAborted();
    const answer = await this.#known(this.connection.request({ route: 'create_sampling_session', body, signal: this.#ended.signal }));
    return { id: readAnswer(samplerSchema, answer).sampling_session_id, requests: 0 };
  }

  /** Forgets the sampler of a version that is not sampled from any more. */
  forgetSampler(path: string): void {
    this.#samplers.delete(path);
  }

  /** Waits for an answer, whose 404 and 410 say that something is gone. */
  async #known<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw error instanceof TinkerError ? goneAt(error) : error;
    }
  }

  /** Frees a model's place at the service. */
  async unload(model: ServiceModel, signal: AbortSignal): Promise<void> {
    if (!this.#models.delete(model)) return;
    const { connection } = this;
    const submitted = await connection.request({ route: 'unload_model', body: { model_id: model.id, type: 'unload_model' }, signal });
    // A service may do it at once.
    if (schemaAccepts(submitted)) await awaitResult(connection, { route: 'unload_model', submit: async () => submitted, submitted, signal });
  }

  /** Frees the places of its models and finishes the session, within ten seconds; a service that does not answer frees them itself later. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#beating);
    if (this.#lost === null) {
      using deadline = eitherSignal(AbortSignal.timeout(CLEAN_UP_MS), new AbortController().signal);
      const { signal } = deadline;
      await Promise.allSettled([...this.#models].map((model) => this.unload(model, signal)));
      await Promise.allSettled([
        this.connection.request({
          route: `sessions/${encodeURIComponent(this.id)}/finish`,
          body: { status: 'finished' },
          mayRetry: () => false,
          signal,
        }),
      ]);
      this.#lost = new TinkerError(`The session ${this.id} was closed`, { isGone: true });
    }
    this.#ended.abort();
  }
}

function schemaAccepts(answer: Parameters<typeof readAnswer>[1]): boolean {
  try {
    readAnswer(futureSchema, answer);
    return true;
  } catch {
    return false;
  }
}
