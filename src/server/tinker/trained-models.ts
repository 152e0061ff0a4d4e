/** The models that clients train, by id, and how one is made: anew, or from a checkpoint. */
import type { CreateModel, LoadWeights } from '../../schemas/tinker/service.ts';
import type { RunFile } from '../../schemas/tinker/checkpoints.ts';
import type { TinkerCompute } from './tinker-compute.ts';
import { type Checkpoint, type Checkpoints } from './checkpoints.ts';
import { parseCheckpointUri } from './checkpoint-path.ts';
import { TinkerRefusal } from './tinker-refusal.ts';
import { TrainedModel } from './trained-model.ts';
import { join } from 'node:path';

/** As the hosted service and SkyRL have it, whatever the rank. */
const ALPHA = 32;

export interface TrainedModelsOptions {
  readonly compute: TinkerCompute;
  readonly checkpoints: Checkpoints;
  /** The base as clients name it; the first is its name in answers. */
  readonly baseNames: readonly string[];
  /** Most models that are trained at a time; memory may hold fewer. */
  readonly maxModels: number;
  readonly maxRank: number;
  readonly signal: AbortSignal;
}

export interface AskedModel {
  readonly id: string;
  readonly sessionId: string;
  /** Of the request. */
  readonly digest: string;
}

interface Made {
  /** The future in which it is made. */
  readonly futureId: string;
  /** Tells the request that made it from others. */
  readonly digest: string;
  readonly sessionId: string;
  readonly model: Promise<TrainedModel>;
}

export class TrainedModels {
  readonly #options: TrainedModelsOptions;
  readonly #made = new Map<string, Made>();

  constructor(options: TrainedModelsOptions) {
    this.#options = options;
  }

  /** Rejects with TinkerRefusal (404) if there is none of that id, or as its making did. */
  get(modelId: string): Promise<TrainedModel> {
    const made = this.#made.get(modelId);
    if (made !== undefined) return made.model;
    return Promise.reject(
      new TinkerRefusal(
        404,
        `There is no model ${JSON.stringify(modelId.slice(0, 64))} in training at this server; it was unloaded, its session has ended, or it never was`,
      ),
    );
  }

  /** The session's. */
  idsOf(sessionId: string): readonly string[] {
    return [...this.#made].flatMap(([id, made]) => (made.sessionId === sessionId ? [id] : []));
  }

  /** Of a model that is being made or trained. Throws TinkerRefusal if another request made it. */
  futureOf(modelId: string, digest: string): string | null {
    const made = this.#made.get(modelId);
    if (made !== undefined && made.digest !== digest)
      throw new TinkerRefusal(400, `Another request made the model ${modelId}; give each model of a session a model_seq_id of its own`);
    return made?.futureId ?? null;
  }

  /** `begin` makes a future of the work, and returns its id. */
  create({ id: modelId, sessionId, digest }: AskedModel, make: () => Promise<TrainedModel>, begin: (model: Promise<TrainedModel>) => string): string {
    if (this.#made.size >= this.#options.maxModels)
      throw new TinkerRefusal(400, `${this.#options.maxModels} models are in training already (--max-models); unload one, or finish its session`);
    const model = make();
    const futureId = begin(model);
    this.#made.set(modelId, { futureId, digest, sessionId, model });
    model.catch(() => this.#made.delete(modelId));
    return futureId;
  }

  async make(
    modelId: string,
    { session_id: sessionId, base_model: base, lora_config: lora, user_metadata: metadata }: CreateModel,
  ): Promise<TrainedModel> {
    if (!lora) throw new TinkerRefusal(400, 'lora_config is missing; this server trains LoRA adapters only');
    const { rank, seed, train_attn = true, train_mlp = true, train_unembed = true } = lora;
    const run: RunFile = {
      model_id: modelId,
      base_model: this.baseNamed(base),
      lora: { rank, seed: seed ?? 0, train_attn, train_mlp, train_unembed },
      created: new Date().toISOString(),
      user_metadata: metadata ?? null,
    };
    return this.#open(run, sessionId, null);
  }

  /** A model of the same adapter as the checkpoint's, which it loads. */
  async makeFrom(
    modelId: string,
    sessionId: string,
    { path, base_model: base, optimizer = false, user_metadata: metadata }: LoadWeights,
  ): Promise<TrainedModel> {
    const { checkpoints } = this.#options;
    const checkpoint = await checkpoints.get(parseCheckpointUri(path));
    const saved = await checkpoints.run(checkpoint.modelId);
    if (saved === null) throw new TinkerRefusal(404, `The model of ${path} is not known to this server`);
    if (typeof base === 'string') this.baseNamed(base);
    const run = { ...saved, model_id: modelId, created: new Date().toISOString(), user_metadata: metadata ?? null };
    const model = await this.#open(run, sessionId, optimizer ? null : checkpoint);
    if (!optimizer) return model;
    try {
      await model.load(checkpoint, true);
      return model;
    } catch (error) {
      await model.close();
      throw error;
    }
  }

  /** The base by the name that the caller uses. Throws TinkerRefusal for another model: training one in its place would be a lie. */
  baseNamed(name: string): string {
    const { baseNames } = this.#options;
    if (baseNames.includes(name)) return name;
    throw new TinkerRefusal(400, `This server has the model ${baseNames[0]}, not ${JSON.stringify(name.slice(0, 200))}; name it so`);
  }

  async unload(modelId: string): Promise<void> {
    const model = await this.get(modelId);
    this.#made.delete(modelId);
    await model.close();
    await this.#options.checkpoints.forgetEmpty(modelId);
  }

  /** Gives up the models of a session. */
  async end(sessionId: string): Promise<void> {
    for (const [id, made] of this.#made) {
      if (made.sessionId !== sessionId) continue;
      this.#made.delete(id);
      await made.model.then((model) => model.close()).catch(() => {});
      await this.#options.checkpoints.forgetEmpty(id);
    }
  }

  async close(): Promise<void> {
    // Each ends those of its session too.
    for (const { sessionId } of this.#made.values()) await this.end(sessionId);
  }

  async #open(run: RunFile, sessionId: string, start: Checkpoint | null): Promise<TrainedModel> {
    const { compute, checkpoints, signal, maxRank } = this.#options;
    const { rank, seed, train_attn: attn, train_mlp: mlp } = run.lora;
    if (rank > maxRank) throw new TinkerRefusal(400, `lora_config.rank must be at most ${maxRank} (--max-lora-rank), got ${rank}`);
    const targets = [...(attn ? compute.layers.attn : []), ...(mlp ? compute.layers.mlp : [])];
    if (targets.length === 0) throw new TinkerRefusal(400, 'lora_config must have train_attn or train_mlp; this server does not train the embedding');
    const open = (initial: string | null) => compute.train({ rank, alpha: ALPHA, targets, seed, initial }, signal);
    const backend = await open(start === null ? null : join(start.folder, 'adapter'));
    try {
      await checkpoints.addRun(run);
    } catch (error) {
      await backend.close();
      throw error;
    }
    const { maxModelLen, vocabularySize } = compute;
    return new TrainedModel({ run, sessionId, backend, reopen: open, maxModelLen, vocabularySize, signal });
  }
}
