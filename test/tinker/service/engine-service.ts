/**
 * A training service on loopback that computes: the nano model, behind the wire as SkyRL with JAX speaks it (JSON, losses averaged) or as the hosted service does (protobuf, losses summed).
 * Shares no code with the package's own server, which this package's clients must not be tested against alone.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedEngine } from '../../../src/engine/embedded-engine.ts';
import { passOf, outputJson } from '../../../src/tinker/wire/json-pass.ts';
import { decodePass, encodeOutput } from '../../../src/tinker/wire/protobuf-pass.ts';
import type { TrainingPass } from '../../../src/tinker/wire/training-pass.ts';
import { floatRow, type WireTensor } from '../../../src/tinker/wire/wire-tensor.ts';
import { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { NANO_BASE } from '../../trainer/gradients/embedded/nano-adapter.ts';
import { type Asked, type Reply, type ScriptedService, scriptedService } from './scripted-service.ts';

interface Model {
  readonly backend: EmbeddedBackend;
  /** What a server that averages keeps until the step, which knows the number of sequences. */
  pending: { readonly batchId: string; readonly dLogProbs: Float32Array }[];
  sequences: number;
}

export interface EngineService extends ScriptedService {
  /** Forgets sessions and models, as a server that was killed; what was saved stays. */
  restart(): Promise<void>;
}

export interface EngineServiceOptions {
  readonly isAveraging?: boolean;
  /** @default the nano model of the tests */
  readonly modelPath?: string;
  /** What a model's answer says of its base. @default what was asked for */
  readonly baseModel?: string;
  readonly hasNorms?: boolean;
  /** Models beyond it are refused. @default Infinity */
  readonly places?: number;
}

const { signal } = new AbortController();
/** As many as the engine's memory for activations surely holds. */
const ROWS_AT_ONCE = 8;
const TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];

export async function engineService({
  isAveraging = false,
  modelPath = NANO_BASE,
  baseModel,
  hasNorms = true,
  places = Infinity,
}: EngineServiceOptions = {}): Promise<EngineService> {
  const engine = await EmbeddedEngine.open({ modelPath, threads: 1, cacheTokens: 4096, signal });
  const home = mkdtempSync(join(tmpdir(), 'vf-engine-service-'));
  const models = new Map<string, Model>();
  const samplers = new Map<string, string | null>();
  const saved = new Map<string, string>();
  const results = new Map<string, Promise<Reply>>();
  let counter = 0;
  let turn: Promise<unknown> = Promise.resolve();
  const text = (json: Asked['json'], key: string) => json?.[key] as string;

  const later = (work: () => Promise<Reply>, isInTurn = true): Reply => {
    const id = `f${++counter}`;
    const result = (isInTurn ? turn.then(work) : work()).catch((error: unknown): Reply => ({ error: (error as Error).message, category: 'user' }));
    if (isInTurn) turn = result;
    results.set(id, result);
    return { request_id: id };
  };
  const modelAt = (id: string): Model => {
    const model = models.get(id);
    if (model === undefined) throw new Error(`model ${id} not found`);
    return model;
  };

  async function pass(asked: Omit<TrainingPass, 'seqId'>, isJson: boolean): Promise<Reply> {
    const model = modelAt(asked.modelId);
    const rows = asked.data.map(({ input: [chunk], lossInputs }) => {
      const next = lossInputs['target_tokens']!.values as Int32Array;
      const row = (name: string, otherwise: number) =>
        (lossInputs[name]?.values as Float32Array | undefined) ?? new Float32Array(next.length).fill(otherwise);
      const [weights, old, advantages] = [row('weights', 1), row('logprobs', 0), row('advantages', 0)];
      // Log-probs of the others are 0 here: the head is most of this model's work.
      const found = [...next.keys()].filter((t) => weights[t] !== 0 || advantages[t] !== 0);
      return {
        ids: Int32Array.of(...(chunk as { tokens: Int32Array }).tokens, next.at(-1)!),
        next,
        weights,
        old,
        advantages,
        at: found.length === 0 ? [0] : found,
      };
    });
    const data: { readonly logprobs: WireTensor }[] = [];
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
      const part = rows.slice(from, from + ROWS_AT_ONCE);
      const offsets = part.reduce<number[]>((all, { ids }) => [...all, all.at(-1)! + ids.length], [0]);
      const batch = {
        ids: Int32Array.from(part.flatMap(({ ids }) => [...ids])),
        offsets: Int32Array.from(offsets),
        targets: Int32Array.from(part.flatMap(({ at }, i) => at.map((t) => offsets[i]! + t + 1))),
        targetIds: Int32Array.from(part.flatMap(({ at, next }) => at.map((t) => next[t]!))),
        temperature: 1,
      };
      const { batchId, logProbs } = await model.backend.forward(batch, { retain: !asked.isForwardOnly, adapter: 'on', signal });
      let k = 0;
      const slopes = part.flatMap(({ next, at, weights, old, advantages }) => {
        const all = new Float32Array(next.length);
        const divisor = isAveraging
          ? Math.max(
              1e-9,
              weights.reduce((sum, weight) => sum + weight, 0),
            )
          : 1;
        const own = at.map((t) => {
          all[t] = logProbs[k++]!;
          return (asked.lossFn === 'cross_entropy' ? -weights[t]! : -Math.exp(all[t] - old[t]!) * advantages[t]! * weights[t]!) / divisor;
        });
        data.push({ logprobs: floatRow(all) });
        return own;
      });
      if (asked.isForwardOnly) continue;
      model.pending.push({ batchId, dLogProbs: Float32Array.from(slopes) });
      model.sequences += part.length;
    }
    const output = { data, metrics: {} };
    return isJson ? outputJson(output) : encodeOutput(output);
  }

  async function step({ model_id: id, adam_params: adam }: Record<string, unknown>): Promise<Reply> {
    const model = modelAt(id as string);
    const p = adam as Record<string, number>;
    for (const { batchId, dLogProbs } of model.pending)
      await model.backend.backward(batchId, { dLogProbs: dLogProbs.map((value) => (isAveraging ? value / model.sequences : value)) });
    [model.pending, model.sequences] = [[], 0];
    const clip = p['grad_clip_norm']! > 0 ? p['grad_clip_norm']! : null;
    const { gradNorm } = await model.backend.optimStep({
      learningRate: p['learning_rate']!,
      beta1: p['beta1']!,
      beta2: p['beta2']!,
      epsilon: p['eps']!,
      weightDecay: p['weight_decay']!,
      maxGradNorm: clip,
    });
    return { metrics: hasNorms ? { [isAveraging ? 'skyrl.ai/grad_norm' : 'grad_norm:mean']: gradNorm } : {} };
  }

  async function sample(json: Record<string, unknown>): Promise<Reply> {
    const adapter = samplers.get(json['sampling_session_id'] as string) ?? null;
    const prompt = Int32Array.from((json['prompt'] as { chunks: { tokens: number[] }[] }).chunks.flatMap(({ tokens }) => tokens));
    const params = json['sampling_params'] as {
      max_tokens: number;
      temperature: number;
      top_p: number;
      top_k: number;
      seed?: number;
      stop: (string | number)[];
    };
    const { ids, logProbs, finish, promptLogProbs } = await engine.generate({
      prompt,
      adapter,
      maxTokens: params.max_tokens,
      sampling: { temperature: params.temperature, topP: params.top_p, topK: params.top_k, minP: 0, seed: params.seed ?? null },
      stop: {
        strings: params.stop.filter((each) => typeof each === 'string'),
        includeString: true,
        tokenIds: params.stop.filter((each) => typeof each === 'number'),
        ignoreEnd: true,
        minTokens: 0,
      },
      skipSpecialTokens: true,
      logProbs: 0,
      promptLogProbs: json['prompt_logprobs'] === true ? 0 : null,
      logProbsMode: 'raw',
      allowedTokenIds: null,
      cacheSalt: adapter,
      signal,
    });
    // As SkyRL: without a value for the first token.
    const listed = promptLogProbs === null ? {} : { prompt_logprobs: promptLogProbs.slice(1).map((each) => each![0]!.logProb) };
    return { sequences: [{ stop_reason: finish, tokens: [...ids], logprobs: [...logProbs] }], ...listed };
  }

  async function create(json: Record<string, unknown>): Promise<Reply> {
    if (models.size >= places) throw new Error(`no place for another adapter`);
    const { rank, seed } = json['lora_config'] as { rank: number; seed: number };
    const id = `m${++counter}`;
    const backend = await EmbeddedBackend.on(engine, { adapter: { rank, alpha: 32, targets: TARGETS, seed, initial: null }, signal });
    models.set(id, { backend, pending: [], sequences: 0 });
    return { model_id: id, base_model: baseModel ?? json['base_model'], lora_config: { rank, alpha: 32 } };
  }

  async function save(json: Record<string, unknown>, kind: 'weights' | 'sampler_weights'): Promise<Reply> {
    const { backend } = modelAt(json['model_id'] as string);
    const directory = join(home, `d${++counter}`);
    const path = `tinker://${json['model_id'] as string}/${kind}/${json['path'] as string}`;
    if (kind === 'weights') await backend.saveState(directory);
    else {
      await backend.saveAdapter(directory);
      await engine.loadAdapter({ name: path, directory, signal });
    }
    saved.set(path, directory);
    return { path };
  }

  const answer = (asked: Asked): Reply | Promise<Reply> | undefined => {
    const { route, json, bytes } = asked;
    const known = (id: string) => (models.has(id) ? null : ([404, { detail: 'Model not found' }] as const));
    if (route === 'create_model') return later(() => create(json!));
    if (route === 'retrieve_future') return results.get(text(json, 'request_id')) ?? [404, { detail: 'Future not found' }];
    if (route === 'unload_model') {
      models.delete(text(json, 'model_id'));
      return { model_id: text(json, 'model_id') };
    }
    if (route === 'forward_backward' || route === 'forward') {
      if (json === undefined && isAveraging) return [500, { detail: 'Internal Server Error' }];
      if (json === undefined) {
        const decoded = decodePass(new Uint8Array(bytes));
        return known(decoded.modelId) ?? later(() => pass(decoded, false));
      }
      if (!isAveraging) return [415, { detail: 'protobuf only' }];
      const input = json[route === 'forward' ? 'forward_input' : 'forward_backward_input'] as Parameters<typeof passOf>[0];
      const modelId = text(json, 'model_id');
      return known(modelId) ?? later(() => pass({ ...passOf(input), modelId, isForwardOnly: route === 'forward' }, true));
    }
    if (route === 'optim_step') return known(text(json, 'model_id')) ?? later(() => step(json!));
    if (route === 'save_weights') return known(text(json, 'model_id')) ?? later(() => save(json!, 'weights'));
    if (route === 'save_weights_for_sampler') return known(text(json, 'model_id')) ?? later(() => save(json!, 'sampler_weights'));
    if (route === 'load_weights') {
      const directory = saved.get(text(json, 'path'));
      if (directory === undefined) return [404, { detail: 'Checkpoint not found' }];
      return later(async () => {
        await modelAt(text(json, 'model_id')).backend.loadState(directory);
        return { path: text(json, 'path') };
      });
    }
    if (route === 'create_sampling_session') {
      const path = json!['model_path'] as string | undefined;
      if (path !== undefined && !saved.has(path)) return [404, { detail: 'Checkpoint not found' }];
      samplers.set(`p${++counter}`, path ?? null);
      return { sampling_session_id: `p${counter}` };
    }
    if (route === 'asample')
      return samplers.has(text(json, 'sampling_session_id')) ? later(() => sample(json!), false) : [404, { detail: 'Sampling session not found' }];
    return undefined;
  };
  const server = await scriptedService(answer);
  const close = server[Symbol.asyncDispose];
  return Object.assign(server, {
    async restart() {
      await turn;
      models.clear();
      samplers.clear();
      results.clear();
    },
    async [Symbol.asyncDispose]() {
      await close();
      await engine.close();
      rmSync(home, { recursive: true, force: true });
    },
  });
}
