/** What the routes of the Tinker API do: sessions, models in training, checkpoints and samplers over one base. */
import { join } from 'node:path';
import type { XStatic } from 'typebox/schema';
import type { sampleRequestSchema } from '../../schemas/tinker/samples.ts';
import type {
  CreateModel,
  CreateSamplingSession,
  LoadWeights,
  OptimStep,
  SaveExternal,
  SaveSampler,
  SaveWeights,
} from '../../schemas/tinker/service.ts';
import type { TrainingPass } from '../../tinker/wire/training-pass.ts';
import { adamOptions } from './adam-params.ts';
import { checkpointName, modelIdOf, parseCheckpointUri } from './checkpoint-path.ts';
import { Checkpoints } from './checkpoints.ts';
import { HeldBytes } from '../held-bytes.ts';
import { type FutureResult, Futures } from './futures.ts';
import type { Content } from './json-routes.ts';
import { sampleWork, samplesOf } from './sample-work.ts';
import { NamelessWeights } from './nameless-weights.ts';
import { type Sampler, Samplers } from './samplers.ts';
import { Sessions } from './sessions.ts';
import type { TinkerCompute } from './tinker-compute.ts';
import { TinkerRefusal } from './tinker-refusal.ts';
import type { TrainedModel } from './trained-model.ts';
import { type AskedModel, TrainedModels } from './trained-models.ts';

export interface TinkerServiceOptions {
  readonly compute: TinkerCompute;
  /** Names of the base; the first is its name in answers. */
  readonly baseNames: readonly string[];
  /** The folder of checkpoints; exists. */
  readonly state: string;
  readonly maxModels: number;
  readonly maxRank: number;
  /** Adapters that samplers may have loaded at a time. */
  readonly maxLoaded: number;
  /** Samples that may wait or run at a time. */
  readonly maxPending: number;
  /** The time after which a session without a heartbeat ends. @default five minutes */
  readonly silentMs?: number;
  /** Bytes that requests may hold until their work is done. @default a quarter of the heap's limit, at most 1 GiB */
  readonly maxHeldBytes?: number;
  readonly onFailure: (error: unknown) => void;
}

/** What a training request answers at once. */
export interface Accepted {
  readonly request_id: string;
  readonly model_id?: string;
}

const OPTIMIZERS = ['adam', 'adamw'];

export class TinkerService {
  readonly options: TinkerServiceOptions;
  /** What callers make the server hold. */
  readonly held: HeldBytes;
  readonly checkpoints: Checkpoints;
  readonly futures: Futures;
  readonly sessions: Sessions;
  readonly models: TrainedModels;
  readonly samplers: Samplers;
  readonly #ended = new AbortController();
  readonly #nameless: NamelessWeights;
  #samples = 0;
  #saved = 0;

  constructor(options: TinkerServiceOptions) {
    this.options = options;
    const { compute, state, onFailure, silentMs } = options;
    const { signal } = this.#ended;
    this.held = new HeldBytes(options.maxHeldBytes);
    this.checkpoints = new Checkpoints(state);
    this.futures = new Futures({ onFailure, held: this.held });
    this.models = new TrainedModels({ ...options, checkpoints: this.checkpoints, signal });
    this.samplers = new Samplers({ compute, maxLoaded: options.maxLoaded, signal });
    const onEnd = (id: string) => void Promise.all([this.models.end(id), this.samplers.end(id)]).catch(onFailure);
    this.sessions = new Sessions({ onEnd, ...(silentMs === undefined ? {} : { silentMs }) });
    this.#nameless = new NamelessWeights(state, this.samplers, this.sessions);
  }

  createModel(body: CreateModel, { digest }: Content): Accepted {
    const { session_id: sessionId, model_seq_id: number, optimizer_config: optimizer } = body;
    this.sessions.beat(sessionId);
    if (optimizer?.type !== undefined && !OPTIMIZERS.includes(optimizer.type))
      throw new TinkerRefusal(400, `optimizer_config.type must be ${OPTIMIZERS.join(' or ')}, got ${JSON.stringify(optimizer.type.slice(0, 40))}`);
    const modelId = modelIdOf(sessionId, number);
    return this.#create(
      { id: modelId, sessionId, digest },
      () => this.models.make(modelId, body),
      ({ run }) => ({
        type: 'create_model',
        model_id: modelId,
        base_model: run.base_model,
        lora_config: { ...run.lora, alpha: 32 },
      }),
    );
  }

  loadWeights(body: LoadWeights, content: Content): Accepted | Promise<Accepted> {
    const { path, optimizer = false, model_id: modelId, session_id: sessionId, model_seq_id: number, seq_id: seqId } = body;
    const checkpointPath = parseCheckpointUri(path);
    if (typeof modelId === 'string') {
      return this.#numbered(modelId, seqId ?? null, content, async (model) => {
        await model.load(await this.checkpoints.get(checkpointPath), optimizer);
        return json({ type: 'load_weights', model_id: modelId, path });
      });
    }
    if (typeof sessionId !== 'string' || typeof number !== 'number')
      throw new TinkerRefusal(422, 'load_weights needs model_id, or session_id and model_seq_id for a new model');
    this.sessions.beat(sessionId);
    const id = modelIdOf(sessionId, number);
    return this.#create(
      { id, sessionId, digest: content.digest },
      () => this.models.makeFrom(id, sessionId, body),
      () => ({ type: 'load_weights', model_id: id, path }),
    );
  }

  unloadModel(modelId: string): Accepted {
    this.futures.assertRoom();
    const work = async () => {
      await this.models.unload(modelId);
      return json({ type: 'unload_model', model_id: modelId });
    };
    return { request_id: this.futures.begin(work), model_id: modelId };
  }

  pass(pass: TrainingPass, content: Content): Promise<Accepted> {
    return this.#numbered(pass.modelId, pass.seqId === 0 ? null : pass.seqId, content, async (model) => ({
      kind: 'pass',
      output: await model.pass(pass),
    }));
  }

  optimStep({ model_id: modelId, seq_id: seqId, adam_params: params }: OptimStep, content: Content): Promise<Accepted> {
    return this.#numbered(modelId, seqId ?? null, content, async (model) => {
      const options = adamOptions(params);
      const { gradNorm } = await model.step(options);
      return json({ type: 'optim_step', metrics: { 'skyrl.ai/grad_norm': gradNorm, 'skyrl.ai/learning_rate': options.learningRate } });
    });
  }

  saveWeights(body: SaveWeights, content: Content): Promise<Accepted> {
    const { model_id: modelId, path, seq_id: seqId, ttl_seconds: ttl, overwrite = false, user_metadata: metadata } = body;
    return this.#numbered(modelId, seqId ?? null, content, async (model) => {
      const name = checkpointName(path ?? `step-${++this.#saved}`);
      const fill = (folder: string) => model.saveState(folder);
      const options = { ttlSeconds: ttl ?? null, overwrite, metadata: metadata ?? null, fill };
      const { uri } = await this.checkpoints.save({ modelId, kind: 'weights', name }, options);
      return json({ type: 'save_weights', path: uri });
    });
  }

  saveForSampler(body: SaveSampler, content: Content): Promise<Accepted> {
    const {
      model_id: modelId,
      path,
      sampling_session_seq_id: number,
      seq_id: seqId,
      ttl_seconds: ttl,
      overwrite = false,
      user_metadata: metadata,
    } = body;
    return this.#numbered(modelId, seqId ?? null, content, async (model) => {
      const fill = (folder: string) => model.saveAdapter(folder);
      if (typeof path === 'string') {
        const options = { ttlSeconds: ttl ?? null, overwrite, metadata: metadata ?? null, fill };
        const { uri } = await this.checkpoints.save({ modelId, kind: 'sampler_weights', name: checkpointName(path) }, options);
        return json({ type: 'save_weights_for_sampler', path: uri });
      }
      const id = await this.#nameless.save(model, number ?? null);
      return json({ type: 'save_weights_for_sampler', path: null, sampling_session_id: id });
    });
  }

  /** The adapter in PEFT's form, to fetch as files. */
  saveExternal(
    { model_id: modelId, path, seq_id: seqId, ttl_seconds: ttl, age_encryption_recipients: recipients }: SaveExternal,
    content: Content,
  ): Promise<Accepted> {
    return this.#numbered(modelId, seqId ?? null, content, async (model) => {
      if ((recipients ?? []).length > 0) throw new TinkerRefusal(400, 'This server does not encrypt weights; leave age_encryption_recipients out');
      const options = { ttlSeconds: ttl ?? null, overwrite: false, metadata: null, fill: (folder: string) => model.saveAdapter(folder) };
      const { uri, file } = await this.checkpoints.save({ modelId, kind: 'external_weights', name: checkpointName(path) }, options);
      return json({ type: 'save_weights_external', path: uri, size_bytes: file.bytes });
    });
  }

  async createSamplingSession(body: CreateSamplingSession): Promise<object> {
    const { session_id: sessionId, sampling_session_seq_id: number, base_model: base, model_path: path } = body;
    this.sessions.beat(sessionId);
    const source = await this.#sourceOf(base ?? null, path ?? null);
    const id = `${sessionId}:sample:${number}`;
    await this.samplers.add({ ...source, id, sessionId });
    return { type: 'create_sampling_session', sampling_session_id: id };
  }

  async sample(
    body: XStatic<typeof sampleRequestSchema>,
    { bytes }: Content,
  ): Promise<Accepted & { readonly sample_sequence_ids: readonly string[] }> {
    const work = sampleWork(body);
    const sampler = await this.#samplerOf(body);
    const { maxPending, compute } = this.options;
    if (this.#samples + work.count > maxPending)
      throw new TinkerRefusal(
        429,
        `${this.#samples} samples wait or run already, of ${maxPending} at most (--max-pending); send this request again later`,
        { retryable: true },
      );
    this.futures.assertRoom(bytes);
    this.#samples += work.count;
    const id = this.futures.begin(async () => {
      try {
        const adapter = await this.samplers.adapterOf(sampler);
        return { kind: 'samples', samples: await samplesOf(work, compute, adapter, this.#ended.signal) };
      } finally {
        this.#samples -= work.count;
      }
    }, bytes);
    return { request_id: id, sample_sequence_ids: Array.from({ length: work.count }, (_, k) => `${id}-${k}`) };
  }

  async close(): Promise<void> {
    this.sessions[Symbol.dispose]();
    this.#ended.abort(new Error('The server is stopping'));
    await this.models.close();
    this.#nameless.close();
  }

  /** The session that the request names, or one for this request alone. */
  async #samplerOf({ sampling_session_id: id, base_model: base, model_path: path }: XStatic<typeof sampleRequestSchema>): Promise<Sampler> {
    if (typeof id === 'string') return this.samplers.get(id);
    return { ...(await this.#sourceOf(base ?? null, path ?? null)), id: '', sessionId: '' };
  }

  /** The base, or the weights of a checkpoint of either kind. Rejects with TinkerRefusal. */
  async #sourceOf(
    base: string | null,
    modelPath: string | null,
  ): Promise<Pick<Sampler, 'adapter' | 'version' | 'isCurrent' | 'modelPath' | 'folder'>> {
    if (base !== null) this.models.baseNamed(base);
    else if (modelPath === null) throw new TinkerRefusal(422, 'A sampler needs base_model or model_path, or asample the id of a sampling session');
    if (modelPath === null) return { adapter: null, version: '', isCurrent: always, modelPath, folder: null };
    const path = parseCheckpointUri(modelPath);
    const { folder, file } = await this.checkpoints.get(path);
    const isCurrent = async () => (await this.checkpoints.find(path))?.file.time === file.time;
    return { adapter: join(folder, 'adapter'), version: file.time, isCurrent, modelPath, folder: null };
  }

  #create(asked: AskedModel, make: () => Promise<TrainedModel>, answer: (model: TrainedModel) => object): Accepted {
    const known = this.models.futureOf(asked.id, asked.digest);
    if (known !== null) return { request_id: known, model_id: asked.id };
    this.futures.assertRoom();
    const begin = (model: Promise<TrainedModel>) => this.futures.begin(async () => json(answer(await model)));
    return { request_id: this.models.create(asked, make, begin), model_id: asked.id };
  }

  /** A request of a model, in its turn. Rejects with TinkerRefusal (404) for a model that is not in training. */
  async #numbered(modelId: string, seqId: number | null, content: Content, work: (model: TrainedModel) => Promise<FutureResult>): Promise<Accepted> {
    const model = await this.models.get(modelId);
    this.futures.assertRoom(content.bytes);
    model.lastRequest = new Date();
    const id = model.requests.take(seqId, content.digest, (inTurn) => this.futures.begin(() => inTurn(() => work(model)), content.bytes));
    // A client that is told 410 sends its request again, and would be told so without end.
    if (this.futures.isForgotten(id))
      throw new TinkerRefusal(
        400,
        `The request with seq_id ${seqId} was carried out, and its result was not fetched in time; go on with the next, or load the last checkpoint`,
      );
    return { request_id: id, model_id: modelId };
  }
}

const always = async () => true;

function json(body: object): FutureResult {
  return { kind: 'json', body };
}
